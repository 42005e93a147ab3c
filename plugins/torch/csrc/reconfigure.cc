// Groups whose members change: each time, the ranks that are to be members make a new communicator.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include "backend.h"
#include "errors.h"

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
  const auto lane = make_lane(key + "collectives", rank, size, group());
  Call call;
  call.title = "tutti:reconfigure";
  call.timeout = opts.timeout.value_or(options_->timeout);
  const auto work = c10::make_intrusive<WorkTutti>(std::move(call), Operation(), lane);
  lane->run(work);
  work->wait();  // throws, and the group is as it was
  const auto old = take_lanes();
  {
    const std::lock_guard lock(mutex_);
    collectives_ = lane;
    uuid_ = opts.uuid;
    sequence_ = 0;
    monitored_ = 0;
    aborted_ = false;
    rank_ = rank;
    size_ = size;
  }
  for (const auto& one : old) one->abandon();
  return work;
}

}  // namespace tutti_torch

#endif  // C10D_BACKEND_HAS_RECONFIGURE
