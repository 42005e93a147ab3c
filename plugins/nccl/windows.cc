#include "plugins/nccl/windows.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "plugins/nccl/comm.h"

namespace tutti::nccl {
namespace {

/// A window on its way.
struct Plan {
  WindowCall call;
  // Whether its memory may be mapped, and its size both ways: of this rank, and the least of all.
  int64_t mine[3] = {};
  int64_t least[3] = {-1, 0, 0};
  std::unique_ptr<ncclWindow_vidmem> made = std::make_unique<ncclWindow_vidmem>();

  explicit Plan(const WindowCall& asked) : call(asked) {
    const bool symmetric = (call.flags & NCCL_WIN_COLL_SYMMETRIC) != 0;
    const auto size = static_cast<int64_t>(call.bytes);
    mine[0] = symmetric && can_be_shared(call.memory, call.bytes) ? 1 : 0;
    mine[1] = size;
    mine[2] = -size;
    made->memory = call.memory;
  }
  bool is_agreed() const { return least[0] >= 0; }
  bool is_shared() const { return least[0] == 1 && least[1] == -least[2]; }
  bool is_complete() const {
    return made->window != nullptr && (made->registration != nullptr || !is_shared());
  }
};

/// What `put` puts into it, as one group of tutti.h: for each rank of this thread its part.
template <class Put>
ncclResult_t together(Put put) {
  (void)tuttiGroupStart();
  put();
  return translate(tuttiGroupEnd());
}

/// Whether collectives may use the windows: every rank's memory can be mapped by the others, is of
/// one size, and they say that they will. Each rank knows this of itself only.
ncclResult_t agree(std::vector<Plan>& plans) {
  return together([&] {
    for (Plan& plan : plans) {
      (void)tuttiAllReduce(plan.mine, plan.least, std::size(plan.mine), tuttiInt64, tuttiMin,
                           plan.call.comm->tutti, tuttiBlocking());
    }
  });
}

/// What every rank makes with its first window.
struct Signals {
  ncclComm_t comm;
  tuttiWindow_t window = nullptr;
};

std::vector<Signals> missing_signals(const std::vector<Plan>& plans) {
  std::vector<Signals> missing;
  for (const Plan& plan : plans) {
    ncclComm_t comm = plan.call.comm;
    const auto known = [comm](const Signals& one) { return one.comm == comm; };
    if (!plan.is_agreed() || std::any_of(missing.begin(), missing.end(), known)) continue;
    const std::lock_guard lock(comm->mutex);
    if (comm->signals == nullptr) missing.push_back({comm});
  }
  return missing;
}

ncclResult_t register_all(std::vector<Plan>& plans, std::vector<Signals>& signals) {
  return together([&] {
    for (Plan& plan : plans) {
      const WindowCall& call = plan.call;
      const tuttiComm_t comm = call.comm->tutti;
      if (!plan.is_agreed()) continue;
      if (plan.is_shared()) {
        (void)tuttiCommRegister(comm, call.memory, call.bytes, &plan.made->registration);
      }
      tuttiWindow_t* const place = call.window == nullptr ? nullptr : &plan.made->window;
      (void)tuttiCommWindowRegister(comm, call.memory, call.bytes, place, 0);
    }
    for (Signals& one : signals) {
      (void)tuttiCommWindowRegister(one.comm->tutti, nullptr, 0, &one.window, 0);
    }
  });
}

void hand_out(Plan& plan) {
  ncclComm_t comm = plan.call.comm;
  std::unique_lock lock(comm->mutex);
  if (!plan.is_complete() || comm->signals == nullptr) {
    lock.unlock();
    (void)end_window(comm, *plan.made);
    return;
  }
  *plan.call.window = plan.made.get();
  comm->windows[plan.made.get()] = std::move(plan.made);
}

}  // namespace

ncclResult_t add_windows(const std::vector<WindowCall>& calls) {
  if (calls.empty()) return ncclSuccess;
  std::vector<Plan> plans(calls.begin(), calls.end());
  ncclResult_t first = agree(plans);
  std::string why = last_message();
  std::vector<Signals> signals = missing_signals(plans);
  const ncclResult_t registered = register_all(plans, signals);
  if (first == ncclSuccess && registered != ncclSuccess) {
    first = registered;
    why = last_message();
  }
  for (const Signals& one : signals) {
    const std::lock_guard lock(one.comm->mutex);
    one.comm->signals = one.window;
  }
  for (Plan& plan : plans) hand_out(plan);
  return first == ncclSuccess ? first : fail(first, why);
}

ncclResult_t end_window(ncclComm_t comm, ncclWindow_vidmem& window) {
  const auto is_refusal = [](tuttiResult_t result) {
    return result == tuttiInvalidUsage || result == tuttiInvalidArgument;
  };
  tuttiResult_t first = tuttiSuccess;
  if (window.window != nullptr) {
    first = tuttiCommWindowDeregister(comm->tutti, window.window);
    if (is_refusal(first)) return translate(first);
    window.window = nullptr;
  }
  if (window.registration != nullptr) {
    const tuttiResult_t result = tuttiCommDeregister(comm->tutti, window.registration);
    if (first == tuttiSuccess) first = result;
    if (!is_refusal(result)) window.registration = nullptr;
  }
  return translate(first);
}

}  // namespace tutti::nccl
