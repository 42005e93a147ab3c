// ncclCollConfig_t of any version, read: what it says of one call.
//
// Errors: a text that names the field or the option and says what it may be.
#pragma once

#include <string>

#include "plugins/nccl/abi.h"
#include "tutti/tutti.h"

namespace tutti::nccl {

/// The options that Tutti takes from the configuration of a call, its thread blocks among them. The
/// rest is about clusters, profilers and kernels, and has no effect.
struct CallConfig {
  bool given = false;  // false: nothing is asked of Tutti; the call is as one without configuration
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;  // its text is the caller's
};

/// Empty, or why it is refused.
std::string read_call_config(const ncclCollConfig_t* config, CallConfig& read);

}  // namespace tutti::nccl
