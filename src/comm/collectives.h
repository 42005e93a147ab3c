// The collectives of a communicator, v-collectives among them: from a request to a plan that runs,
// now or in pieces.
//
// Owns: the plans. Threads: one at a time. Lifetime: within what it is given. Errors: those of a
// request are its outcome; others fail the communicator (CallFrame).
#pragma once

#include <cstdint>
#include <string>

#include "src/comm/call_buffers.h"
#include "src/comm/call_frame.h"
#include "src/comm/contribution.h"
#include "src/comm/planner.h"
#include "src/comm/request.h"
#include "src/comm/vector_call.h"
#include "src/exec/host_executor.h"
#include "src/exec/network_executor.h"

namespace tutti::comm {

/// The host's part of a call on devices of several hosts.
struct NetworkPart {
  exec::NetworkCall network;
  exec::Call call;  // without a deadline
  diagnosis::DescribedCall described;
  std::string algorithm;
};

class Collectives final {
 public:
  Collectives(const Membership& membership, exec::HostExecutor& executor, CallFrame& frame,
              CallBuffers buffers, PlannerOptions planning);

  /// Blocks until the rank's part is complete.
  Status run(const Request& request);
  /// `ticket`: of the recorder's queue.
  Status begin(const Request& request, uint64_t ticket);
  /// The host's part of a call whose other part its streams run.
  Status begin(const Request& request, const NetworkPart& part, uint64_t ticket);
  plan::Progress advance();
  Status outcome() const { return frame_.status().ok() ? outcome_ : frame_.status(); }

  Planner& planner() { return planner_; }
  const Planner& planner() const { return planner_; }
  bool is_in_place(const Request& request) const;
  uint64_t deadline_from_now(const Extras* extras) const {
    return frame_.deadline_of(planner_.options_of(extras).timeout_ns);
  }
  /// The plan that the request would run, and all candidates with their predictions. Lines.
  std::string explain(const Request& request);
  /// How long it should take. No plan is made.
  Result<double> predict_ns(const Request& request);

 private:
  /// A call that only repeats another one, on any buffers, need not work this out again.
  struct Repeat {
    Request last{.root = -1};  // which no call has
    BufferDistance placement;
    bool is(const Request& request) const {
      return request.count == last.count && request.collective == last.collective &&
             request.type == last.type && request.op == last.op && request.root == last.root;
    }
  };

  Result<const Prepared*> prepare(const Request& request);
  Result<Request> contribute(const Request& request);
  Status run_any(const Request& request);
  Status run_slowly(const Request& request);
  Status run_plan(const Request& request);
  Status run_fast(const Request& request, const Prepared& ready);
  Result<const Prepared*> next_vector_run(exec::Call& call);
  Status run_vectors(const Request& request);
  Status begin_vectors(const Request& request, uint64_t ticket);
  bool start_vectors();
  exec::Call call_of(const Request& request, const Prepared& prepared) const;
  std::string explain_ways(const select::Candidate& chosen, const Request& request,
                           BufferReach reach);
  std::string rounds_before(const Request& request, bool in_place);

  const Membership& membership_;
  exec::HostExecutor& executor_;
  CallFrame& frame_;
  trace::Recorder& recorder_;
  CallBuffers buffers_;
  Planner planner_;
  Repeat repeat_;
  VectorCall vectors_;
  exec::NetworkExecutor network_;
  Contribution contribution_;
  Status outcome_;
};

}  // namespace tutti::comm
