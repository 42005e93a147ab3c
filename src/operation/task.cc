#include "src/operation/task.h"

#include <algorithm>

#include "src/base/caught.h"
#include "src/base/clock.h"

namespace tutti::operation {

bool Task::is_on(const TaskStream& one) const {
  const auto is_same = [&](const TaskStream& other) { return other.order == one.order; };
  return is_same(stream) || std::any_of(more_streams.begin(), more_streams.end(), is_same);
}

void Task::announce() {
  ticket = operation->queue();
  stream.completion->add();
  for (const TaskStream& other : more_streams) other.completion->add();
  communicator().pending.fetch_add(1, std::memory_order_relaxed);
}

// The end of a communicator waits for what is pending, so also for listeners. After that it
// may be freed: who waits for a stream is told last. Streams of devices go on, and nobody asks them
// for an error: of an operation that fails alone, as an access to a part that has ended meanwhile,
// only the communicator can tell.
void Task::finish(const Status& status) {
  release();
  attempt([&] { communicator().frame().conclude(status); });
  // The call itself knows which rank it failed because of; streams must not wait for it either way.
  if (!status.ok() && !fences.empty() && communicator().failure().ok()) {
    attempt([&] { communicator().failures().abort(status); });
  }
  tell(status);
  communicator().pending.fetch_sub(1, std::memory_order_release);
  for (const TaskStream& other : more_streams) other.completion->finish(status);
  stream.completion->finish(status);
}

void Task::tell(const Status& status) const {
  for (const auto& handle : handles) handle->finish(status);
}

bool Task::may_begin() const {
  return std::all_of(fences.begin(), fences.end(), [](const auto& one) { return one->is_open(); });
}

void Task::release() const {
  for (const auto& fence : fences) fence->release();
}

bool Task::is_over() const {
  return std::all_of(fences.begin(), fences.end(), [](const auto& one) { return one->is_over(); });
}

Status Task::begin() {
  for (const auto& handle : handles) handle->begin(monotonic_ns());
  return operation->begin(ticket);
}

}  // namespace tutti::operation
