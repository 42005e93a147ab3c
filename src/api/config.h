// tuttiConfig_t, checked: what a caller may ask of a communicator when it is made.
//
// Errors: kInvalidArgument names the call, the field and what is accepted. Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "include/tutti/tutti.h"
#include "src/base/config.h"
#include "src/base/status.h"

namespace tutti::api {

struct CommConfig {
  bool blocking = true;
  std::string name;                       // for messages and traces; empty: none
  uint64_t timeout_ns = 0;                // default deadline of its calls; 0: TUTTI_TIMEOUT
  EngineWish engine = EngineWish::kAuto;  // kAuto: TUTTI_ENGINE
  uint32_t least_ctas = 0;                // 0: TUTTI_LEAST_CTAS
  uint32_t most_ctas = 0;                 // 0: TUTTI_CTAS
  std::optional<std::string> wire = {};   // codecs::wire_text(); none: TUTTI_WIRE
};

/// A complaint about least_ctas and most_ctas, each 0 or how many; empty: there is none.
std::string check_ctas(int least, int most);

/// Nothing if the number is no tuttiEngine_t.
std::optional<EngineWish> engine_of(int number);

/// `inherited` if `config` is null: a child's configuration is its parent's. A structure of another
/// version is read as far as both know it; what only the newer one knows must be zero.
Result<CommConfig> read_config(const tuttiConfig_t* config, const CommConfig& inherited,
                               const char* call);

}  // namespace tutti::api
