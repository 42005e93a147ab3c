// Calls on devices that an engine of a rank runs as a whole, beside the walk of a plan that streams
// are put through: which they are, and what the engine needs of them. DeviceCalls has a table of
// such engines and asks one after the other.
//
// All ranks must choose alike: an objection follows from what is equal on all of them.
//
// Threads: one at a time. Errors: an objection is none, but for calls that will have nothing else.
#pragma once

#include <string>

#include "src/comm/planner.h"
#include "src/comm/request.h"
#include "src/exec/stream_rank.h"

namespace tutti::comm {

/// A call as such an engine takes it.
struct WholeCall {
  const plan::Plan* plan = nullptr;  // null: it needs none
  uint32_t signature = 0;
  diagnosis::DescribedCall described;
  trace::Label label;
  uint32_t far_signature = 0;  // of a call of several hosts
};

class WholeCalls {
 public:
  virtual ~WholeCalls() = default;
  /// In exec::StreamedCall.
  virtual exec::CallEngine engine() const = 0;
  /// Whether the wish names this engine. Calls whose options have such a wish will have nothing
  /// else; a communicator's wish leaves what the engine objects to to the others, as auto does.
  virtual bool is_meant(EngineWish wish) const = 0;
  /// OK: it runs the call. `wish`: by which engine calls are to run; an engine that is not named
  /// there, and is none of auto's, objects. Equal on all ranks.
  virtual Status objection(const Request& request, EngineWish wish) = 0;
  /// Before a call is taken, in the order of calls on all ranks: it may wait for them.
  /// kUnsupported: others run the call, `captured` or not, for this reason. Another error: the
  /// communicator has failed.
  virtual Status get_ready(bool /*captured*/) { return {}; }
  /// Of a request that it does not object to. Valid until the next call of this.
  virtual Result<WholeCall> take(const Request& request, bool in_place) = 0;
  /// The same for people, behind "on device memory: ".
  virtual std::string explain(const Request& request, bool in_place) = 0;
  /// An objection in a sentence about another engine.
  virtual std::string explain(const Status& objection) const = 0;
  /// Whether people want to hear of objections where that is the wish.
  virtual bool is_of_interest(EngineWish wish) const = 0;
};

}  // namespace tutti::comm
