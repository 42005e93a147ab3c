// The parts of Collectives about v-collectives: one call of the user's, up to three runs.
#include "src/comm/collectives.h"

namespace tutti::comm {

// Null if nothing of the call is left to run.
Result<const Prepared*> Collectives::next_vector_run(exec::Call& call) {
  Result<VectorCall::PlanRun> run = vectors_.next();
  if (!run.ok()) return run.status();
  const Prepared* prepared = run.value().prepared;
  // The algorithm of the rounds before is not the call's.
  if (run.value().carries_data) recorder_.refine(prepared->label);
  call = run.value().call;
  if (prepared == nullptr) return prepared;
  const bool is_round = !run.value().carries_data;
  frame_.state().describe(is_round ? planner_.host().describe(vectors_.request())
                                   : prepared->described);
  repeat_ = {};  // what repeats the call before this one is not described any more
  return prepared;
}

Status Collectives::run_vectors(const Request& request) {
  if (!frame_.status().ok()) return frame_.status();
  const Result<Request> ready = contribute(request);
  if (!ready.ok()) return ready.status();
  recorder_.begin(frame_.labels().label(request), frame_.state().calls() + 1);
  vectors_.begin(ready.value(), deadline_from_now(request.extras));
  Status outcome;
  exec::Call call;
  while (outcome.ok()) {
    const Result<const Prepared*> next = next_vector_run(call);
    outcome = next.status();
    if (!next.ok() || next.value() == nullptr) break;
    const Prepared& prepared = *next.value();
    outcome =
        prepared.fast ? prepared.fast->run(executor_, call) : executor_.run(prepared.program, call);
  }
  frame_.conclude(outcome);
  return outcome;
}

Status Collectives::begin_vectors(const Request& request, uint64_t ticket) {
  recorder_.begin_queued(ticket, frame_.labels().label(request), frame_.state().calls() + 1);
  if (!frame_.status().ok()) return frame_.status();
  const Result<Request> ready = contribute(request);
  if (!ready.ok()) return ready.status();
  vectors_.begin(ready.value(), deadline_from_now(request.extras));
  (void)start_vectors();
  return outcome_;
}

// False if nothing of the call is left; outcome() says whether it succeeded.
bool Collectives::start_vectors() {
  exec::Call call;
  const Result<const Prepared*> next = next_vector_run(call);
  outcome_ = next.status();
  if (!next.ok() || next.value() == nullptr) return false;
  executor_.start(next.value()->program, call);
  return true;
}

}  // namespace tutti::comm
