// A communicator whose members change in place.
#include <algorithm>
#include <chrono>
#include <thread>

#include "communicator.h"

namespace tutti_torch {
namespace {

constexpr auto kPoll = std::chrono::microseconds(200);

uint64_t nanoseconds_of(std::chrono::milliseconds timeout) {
  return static_cast<uint64_t>(
      std::max<int64_t>(1, std::chrono::duration_cast<std::chrono::nanoseconds>(timeout).count()));
}

tuttiResult_t settled(tuttiComm_t comm, tuttiResult_t state) {
  while (state == tuttiInProgress) {
    std::this_thread::sleep_for(kPoll);
    const tuttiResult_t asked = tuttiCommGetAsyncError(comm, &state);
    if (asked != tuttiSuccess) return asked;
  }
  return state;
}

}  // namespace

void Communicator::revoke() {
  {
    const std::lock_guard lock(mutex_);
    if (ready_ && !aborted()) {
      if (!revoked_.exchange(true, std::memory_order_acq_rel)) {
        tuttiCommRevoke(comm_, TUTTI_REVOKE_DEFAULT);
      }
      return;
    }
  }
  abort();
}

Standing Communicator::standing() const {
  const std::lock_guard lock(mutex_);
  Standing found;
  found.exists = ready_ && !aborted();
  if (!found.exists) return found;
  found.well = failure() == tuttiSuccess && !revoked_.load(std::memory_order_acquire);
  found.exists = tuttiCommUserRank(comm_, &found.rank) == tuttiSuccess &&
                 tuttiCommGetEpoch(comm_, &found.epoch) == tuttiSuccess && found.rank >= 0;
  return found;
}

void Communicator::edit(const std::vector<int>& order, std::chrono::milliseconds timeout) {
  tuttiEdit_t wish = TUTTI_EDIT_INITIALIZER;
  wish.order = order.data();
  wish.order_count = static_cast<int>(order.size());
  wish.newcomers = static_cast<int>(std::count(order.begin(), order.end(), TUTTI_NEWCOMER));
  wish.abort = 1;
  wish.timeout_ns = nanoseconds_of(timeout);
  tuttiEditReport_t report = {};
  report.size = sizeof report;
  const tuttiResult_t result = settled(comm_, tuttiCommEdit(comm_, &wish, &report));
  check(result, "changing the members of " + place_.name, comm_, timeout);
  failure_.store(tuttiSuccess, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  revoked_.store(false, std::memory_order_release);
  last_edit_ = report;
}

void Communicator::arrange(int wanted, int size, std::chrono::milliseconds timeout) {
  std::vector<int32_t> all(static_cast<size_t>(size));
  const int32_t own = wanted;
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  call.collective = tuttiCollAllGather;
  call.send = &own;
  call.recv = all.data();
  call.count = 1;
  call.type = tuttiInt32;
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.timeout_ns = nanoseconds_of(timeout);
  check(tuttiSubmit(&call, comm_, tuttiBlocking(), &options, nullptr),
        "arranging the members of " + place_.name, comm_, timeout);
  std::vector<int> order(all.size(), 0);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    order.at(static_cast<size_t>(all[rank])) = static_cast<int>(rank);
  }
  if (!std::is_sorted(order.begin(), order.end())) edit(order, timeout);
}

tuttiUniqueId Communicator::id_for_newcomers() const {
  tuttiUniqueId id{};
  check(tuttiCommGetUniqueId(comm_, &id), "making the id of " + place_.name, comm_, {});
  return id;
}

tuttiEditReport_t Communicator::last_edit() const {
  const std::lock_guard lock(mutex_);
  return last_edit_;
}

}  // namespace tutti_torch
