// Groups whose members change. The communicator that most of the ranks have is edited in place, and
// all others join it; where there is none that can be edited, the ranks make a new one.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include "backend.h"
#include "errors.h"
#include "membership.h"

#ifdef C10D_BACKEND_HAS_RECONFIGURE

namespace tutti_torch {
namespace {

/// In the order of the ranks. A set leaves the order to the backend: that of the strings.
std::vector<c10d::ReconfigureHandle> ordered(const c10d::ReconfigureOptions& opts) {
  if (const auto* given = std::get_if<std::vector<c10d::ReconfigureHandle>>(&opts.handles)) {
    return *given;
  }
  const auto& set = std::get<std::unordered_set<c10d::ReconfigureHandle>>(opts.handles);
  std::vector<c10d::ReconfigureHandle> sorted(set.begin(), set.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

void check_handles(const std::vector<c10d::ReconfigureHandle>& handles) {
  TORCH_CHECK_VALUE(!handles.empty(), "tutti: reconfigure() without handles");
  std::set<c10d::ReconfigureHandle> seen;
  for (const auto& handle : handles) {
    TORCH_CHECK_VALUE(!handle.empty(), "tutti: a handle of reconfigure() is empty");
    TORCH_CHECK_VALUE(handle.rfind("tutti:", 0) == 0, "tutti: '", handle,
                      "' is no handle of a tutti group");
    TORCH_CHECK_VALUE(seen.insert(handle).second, "tutti: the handle '", handle,
                      "' was given twice");
  }
}

}  // namespace

c10d::ReconfigureHandle ProcessGroupTutti::get_reconfigure_handle() const {
  const std::lock_guard lock(mutex_);
  const auto& globals = options_->global_ranks_in_group;
  const auto rank = static_cast<size_t>(getRank());
  const uint64_t global = rank < globals.size() ? globals[rank] : rank;
  return "tutti:" + std::to_string(getRank()) + ":" + std::to_string(uuid_) + ":" +
         std::to_string(nonce_) + "-" + std::to_string(attempts_) + ":" + std::to_string(global);
}

WorkPtr ProcessGroupTutti::reconfigure(const c10d::ReconfigureOptions& opts) {
  TORCH_CHECK_VALUE(opts.uuid >= 0, "tutti: the uuid of reconfigure() must not be negative");
  const std::vector<c10d::ReconfigureHandle> handles = ordered(opts);
  check_handles(handles);
  const auto own = std::find(handles.begin(), handles.end(), get_reconfigure_handle());
  TORCH_CHECK_VALUE(own != handles.end(),
                    "tutti: reconfigure() without this rank's own handle; "
                    "collect the handles anew each time, they change");
  const int rank = static_cast<int>(own - handles.begin());
  const int size = static_cast<int>(handles.size());
  const std::string key = "reconfigure/" + std::to_string(opts.uuid) + "/";
  {
    const std::lock_guard lock(mutex_);
    ++attempts_;  // whatever becomes of it, the handle is used
  }
  if (rank == 0) {
    const std::string claim = handles.front();
    TORCH_CHECK_WITH(DistBackendError,
                     store_->compareSet("tutti/" + key + "claim", "", claim) == claim,
                     "tutti: the uuid ", opts.uuid,
                     " was already used; give each reconfigure() "
                     "its own");
  }
  const auto timeout = opts.timeout.value_or(options_->timeout);
  MembershipMeeting meeting(store_, "tutti/" + key, handles, rank, timeout);
  const auto lane = next_lane(meeting, key, rank, size);
  Call call;
  call.title = "tutti:reconfigure";
  call.timeout = meeting.left();
  const auto work = c10::make_intrusive<WorkTutti>(std::move(call), Operation(), lane);
  lane->run(work);
  work->wait();  // throws, and the group is as it was
  take_over(lane, opts.uuid, rank, size);
  return work;
}

/// The lane of the next members: the present one where its communicator is edited.
std::shared_ptr<Lane> ProcessGroupTutti::next_lane(MembershipMeeting& meeting,
                                                   const std::string& key, int rank, int size) {
  std::shared_ptr<Lane> present;
  {
    const std::lock_guard lock(mutex_);
    present = collectives_;
  }
  const Standing standing = present == nullptr ? Standing() : present->communicator().standing();
  const MembershipChange change = meeting.agree(standing);
  if (!change.edits) return make_lane(key + "collectives", rank, size, group());
  const int newcomers = change.newcomers();
  if (meeting.is_of_base()) {
    const bool was_free = present->exclusively(meeting.left(), [&](Communicator& communicator) {
      edit(communicator, meeting, change, rank);
    });
    TORCH_CHECK_WITH(DistBackendError, was_free,
                     "tutti: reconfigure() timed out: calls of the old members are still running");
    return present;
  }
  const auto lane = std::make_shared<Lane>(
      Place{store_, "tutti/" + key, rank, size, group(), meeting.take_id()}, observer());
  if (newcomers < 2) return lane;
  lane->exclusively(meeting.left(), [&](Communicator& communicator) {
    communicator.get(meeting.left());
    communicator.arrange(rank, size, meeting.left());
  });
  return lane;
}

/// The part of a member of the communicator that is edited.
void ProcessGroupTutti::edit(Communicator& communicator, MembershipMeeting& meeting,
                             const MembershipChange& change, int rank) {
  bool has_changed = false;
  try {
    if (change.heals || change.newcomers() == 0) {
      communicator.edit(change.staying(), meeting.left());
      has_changed = true;
    }
    if (change.newcomers() == 0) return;
    if (meeting.leads()) meeting.hand_on(communicator.id_for_newcomers());
    communicator.edit(change.heals ? change.order_once_healed() : change.order, meeting.left());
    has_changed = true;
    // Newcomers have come in any order.
    if (change.newcomers() > 1) {
      communicator.arrange(rank, static_cast<int>(change.order.size()), meeting.left());
    }
  } catch (...) {
    // The communicator has other members than the group: the next reconfigure() sorts it out.
    if (has_changed) communicator.note(tuttiRemoteError);
    throw;
  }
}

void ProcessGroupTutti::take_over(const std::shared_ptr<Lane>& lane, int64_t uuid, int rank,
                                  int size) {
  const auto old = take_lanes();
  {
    const std::lock_guard lock(mutex_);
    collectives_ = lane;
    uuid_ = uuid;
    sequence_ = 0;
    monitored_ = 0;
    aborted_ = false;
    rank_ = rank;
    size_ = size;
  }
  for (const auto& one : old) {
    if (one != lane) one->abandon();
  }
}

}  // namespace tutti_torch

#endif  // C10D_BACKEND_HAS_RECONFIGURE
