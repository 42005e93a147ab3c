#include "src/operation/captured_task.h"

#include <utility>

#include "src/base/caught.h"

namespace tutti::operation {

CapturedTask::CapturedTask(Task task, StreamEngine& engine, std::shared_ptr<comm::ReplayGate> gate)
    : task_(std::move(task)), engine_(engine), gate_(std::move(gate)) {}

void CapturedTask::arrived() {
  {
    const MutexLock lock(mutex_);
    if (++arrived_ < stagings_.size()) return;
    arrived_ = 0;
  }
  size_t fenced = 0;
  const Status status = caught_status([&] { return run(fenced); });
  for (size_t i = fenced; i < stagings_.size(); ++i) stagings_[i]->skip();
  if (status.ok()) return;
  (void)gate_->pass([&](comm::Communicator& communicator) {
    communicator.failures().abort(status);
    return Status();
  });
}

// A fence that goes with the task lets its stream go on.
Status CapturedTask::run(size_t& fenced) {
  Task task;
  task.operation = HeldOperation(*task_.operation);
  task.priority = task_.priority;
  task.is_replay = true;
  task.stream = task_.stream;
  task.more_streams = task_.more_streams;
  task.fences.reserve(stagings_.size());
  for (; fenced < stagings_.size(); ++fenced) {
    task.fences.push_back(stagings_[fenced]->fence());
  }
  return gate_->pass([&](comm::Communicator&) {
    engine_.submit(task);
    return Status();
  });
}

}  // namespace tutti::operation
