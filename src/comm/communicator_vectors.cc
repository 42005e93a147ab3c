// The parts of Communicator about v-collectives: one call of the user's, up to three runs.
#include "src/comm/communicator.h"

namespace tutti::comm {

// What runs before the data, for explain().
std::string Communicator::rounds_before(const Request& request, bool in_place) {
  if (!request.counts->is_private()) return "";
  const Result<bool> forwards = planner_->forwards(request, longest_of(*request.counts), in_place);
  const bool sizes = forwards.ok() && forwards.value();
  return sizes ? ", after a count round and a size round" : ", after a count round";
}

// Null if nothing of the call is left to run.
Result<const Prepared*> Communicator::next_vector_run(exec::Call& call) {
  Result<VectorCall::Run> run = vectors_->next();
  if (!run.ok()) return run.status();
  const Prepared* prepared = run.value().prepared;
  // The algorithm of the rounds before is not the call's.
  if (run.value().carries_data) recorder_->refine(prepared->label);
  call = run.value().call;
  if (prepared == nullptr) return prepared;
  const bool is_round = !run.value().carries_data;
  executor_->state().describe(is_round ? planner_->describe(vectors_->request())
                                       : prepared->described);
  repeat_ = {};  // what repeats the call before this one is not described any more
  return prepared;
}

Status Communicator::run_vectors(const Request& request) {
  if (!status().ok()) return status();
  const Result<Request> ready = contribution_of(request);
  if (!ready.ok()) return ready.status();
  recorder_->begin(calls_->label(request), executor_->state().calls() + 1);
  vectors_->begin(ready.value(), deadline_from_now(request.extras));
  Status outcome;
  exec::Call call;
  while (outcome.ok()) {
    const Result<const Prepared*> next = next_vector_run(call);
    outcome = next.status();
    if (!next.ok() || next.value() == nullptr) break;
    const Prepared& prepared = *next.value();
    outcome = prepared.fast ? prepared.fast->run(*executor_, call)
                            : executor_->run(prepared.program, call);
  }
  conclude(outcome);
  return outcome;
}

Status Communicator::begin_vectors(const Request& request, uint64_t ticket) {
  recorder_->begin_queued(ticket, calls_->label(request), executor_->state().calls() + 1);
  if (!status().ok()) return status();
  const Result<Request> ready = contribution_of(request);
  if (!ready.ok()) return ready.status();
  active_ = Active::kPlan;
  vectors_->begin(ready.value(), deadline_from_now(request.extras));
  (void)start_vectors();
  return outcome_;
}

// False if nothing of the call is left; outcome() says whether it succeeded.
bool Communicator::start_vectors() {
  exec::Call call;
  const Result<const Prepared*> next = next_vector_run(call);
  outcome_ = next.status();
  if (!next.ok() || next.value() == nullptr) return false;
  executor_->start(next.value()->program, call);
  return true;
}

}  // namespace tutti::comm
