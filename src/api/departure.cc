#include "src/api/departure.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "src/api/handle.h"
#include "src/base/caught.h"
#include "src/operation/collective_operation.h"
#include "src/operation/task_scheduler.h"

namespace tutti::api {
namespace {

// How long a rank that leaves waits for the other ranks to be done with it.
constexpr uint64_t kLeaveNs = 10 * kNanosecondsPerSecond;
constexpr uint32_t kSpins = 100;

// The ranks of one process leave in one thread, so they advance together.
void leave_together(const PendingTeardowns::Ranks& ranks, const std::function<bool()>& wanted) {
  auto completion = std::make_shared<operation::Completion>();
  operation::TaskScheduler scheduler;
  for (const auto& rank : ranks) {
    if (!rank->begin_leaving(kLeaveNs, wanted)) continue;
    operation::Task task;
    const comm::Request barrier{.collective = schedule::Collective::kBarrier};
    task.operation = operation::HeldOperation(operation::CollectiveOperation(*rank, barrier));
    task.stream.completion = completion;
    task.announce();
    scheduler.add(std::move(task));
  }
  scheduler.run(kSpins);
  (void)completion->wait();  // a rank that is gone already cannot be waited for
  for (const auto& rank : ranks) rank->end_leaving();
}

void leave(const PendingTeardowns::Ranks& ranks, const std::function<bool()>& wanted) {
  attempt([&] { leave_together(ranks, wanted); });
}

bool never() { return false; }

}  // namespace

void PendingTeardowns::add(uint64_t communicator) {
  const MutexLock lock(mutex_);
  ++groups_[communicator].in_use;
}

PendingTeardowns::Ranks PendingTeardowns::hold(std::unique_ptr<comm::Communicator> rank) {
  const uint64_t communicator = rank->id();
  const MutexLock lock(mutex_);
  // Without memory for it the rank ends here and now.
  attempt([&] {
    mutex_.assert_held();
    GroupInUse& group = groups_[communicator];
    // Its destroy is over: an abort that comes later is none of those who leave for it.
    if (group.in_use > 1) rank->failures().watch_abort(nullptr);
    group.parked.push_back(std::move(rank));
  });
  return take_if_complete(communicator);
}

PendingTeardowns::Ranks PendingTeardowns::remove(uint64_t communicator) {
  const MutexLock lock(mutex_);
  return take_if_complete(communicator);
}

PendingTeardowns::Ranks PendingTeardowns::take_if_complete(uint64_t communicator) {
  const auto found = groups_.find(communicator);
  if (found == groups_.end() || --found->second.in_use > 0) return {};
  return std::move(groups_.extract(found).mapped().parked);
}

namespace {

bool is_well(comm::Communicator& rank) {
  return caught_status([&] { return rank.failure(); }).ok();
}

// How closing the windows of a communicator went that has ended all the same. Its first failure may
// have been wrong usage, which would say that this end was refused.
Status close_windows_of(comm::Communicator& rank) {
  const Status closed = caught_status([&] { return rank.close_windows(kLeaveNs); });
  if (closed.code() != Code::kInvalidUsage) return closed;
  return caught_status([&] { return Status::remote_error(std::string(closed.message())); });
}

}  // namespace

void close_to_graphs(comm::Communicator& rank, const std::string& since) {
  comm::DeviceStreams& streams = rank.streams();
  if (!streams.is_replayed()) return;  // no graph has a call
  streams.close_to_graphs(fmt::format(
      "{}: a graph has run whose calls are of epoch {} of communicator {:016x}, which is over "
      "since "
      "{}: they have done nothing. Capture the calls anew, and destroy the graph",
      rank.membership().name_of(rank.rank()), rank.standing().own_epoch(), rank.id(), since));
}

Status depart(std::unique_ptr<comm::Communicator> rank, PendingTeardowns& teardowns,
              const std::function<bool()>& wanted) {
  close_to_graphs(*rank, "it was destroyed");
  (void)drain(*rank);
  // It may be parked for long, and their memory freed.
  Status closed = close_windows_of(*rank);
  if (is_well(*rank)) {
    leave(teardowns.hold(std::move(rank)), wanted);
    return closed;
  }
  attempt([&] { rank->give_up(); });  // it may have failed where no peer noticed
  const uint64_t communicator = rank->id();
  rank.reset();
  leave(teardowns.remove(communicator), wanted);
  return closed;
}

Status abandon(std::unique_ptr<comm::Communicator> rank, PendingTeardowns& teardowns) {
  close_to_graphs(*rank, "it was aborted");
  (void)drain(*rank);
  rank->failures()
      .abort();  // it may have been idle: nobody in a window is waited for as by a destroy
  attempt([&] { rank->give_up(); });
  Status closed = close_windows_of(*rank);
  const uint64_t communicator = rank->id();
  rank.reset();
  leave(teardowns.remove(communicator), never);
  return closed;
}

}  // namespace tutti::api
