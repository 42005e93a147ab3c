// One collective call as the communicator sees it: checked arguments, no handles.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "src/base/config.h"
#include "src/comm/count_view.h"
#include "src/schedule/schedule.h"
#include "src/types/scalar.h"
#include "src/types/types.h"

namespace tutti::comm {

/// The options of the user for a call or for all that follow; equal on all ranks but for the last
/// two.
struct CallOptions {
  std::string algorithm;  // empty: chosen
  bool deterministic = false;
  std::string wire;                       // codecs::wire_text(): which levels encode; empty: none
  EngineWish engine = EngineWish::kAuto;  // of calls on streams of devices: nothing else will do
  int priority = 0;
  uint32_t least_ctas = 0, most_ctas = 0;  // of a kernel; 0: the communicator's
  uint64_t timeout_ns = 0;                 // 0: the communicator's; kNoDeadline: none
};

/// Few calls carry these besides their arguments.
struct Extras {
  std::optional<CallOptions> options;  // none: the communicator's
  types::Scalar scalar;                // of a scaled sum
};

struct Request {
  schedule::Collective collective = schedule::Collective::kAllReduce;
  types::DataType type = types::DataType::kInt8;
  types::ReduceOp op = types::ReduceOp::kSum;
  int root = 0;
  uint64_t count = 0;  // of a v-collective: nothing
  const void* send = nullptr;
  void* recv = nullptr;
  const Extras* extras = nullptr;     // whoever keeps the request keeps them too
  const CountView* counts = nullptr;  // likewise; of a v-collective
};

/// As kernels know it. The contributions to a scaled sum come scaled already; only signatures tell
/// it from a sum.
inline types::ReduceOp folded_op(const Request& request) {
  const bool scaled = request.op == types::ReduceOp::kScaledSum;
  return scaled ? types::ReduceOp::kSum : request.op;
}

/// "all_gather_v" for all_gather; "" for a collective that has no such form.
const char* vector_name_of(schedule::Collective collective);
/// For messages.
inline const char* name_of(const Request& request) {
  return request.counts == nullptr ? schedule::name_of(request.collective)
                                   : vector_name_of(request.collective);
}

/// Of each rank only its own are known to it.
inline bool has_private_counts(const Request& request) {
  return request.counts != nullptr && request.counts->is_private();
}

/// Of a v-collective: whether the smaller buffer of `rank` is its share of the larger one, or,
/// where both hold shares, whether they are the same ones.
bool is_in_place(const Request& vectors, int rank);

}  // namespace tutti::comm
