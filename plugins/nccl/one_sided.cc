// ncclPutSignal, ncclSignal, ncclWaitSignal.
//
// NCCL's signals belong to the communicator, those of tutti.h to a window. So a communicator has a
// window without memory for its signals, made with its first window (windows.cc), because that call
// is collective and these are not. A put with a signal is a put to the program's window and a
// signal of that one: tutti.h orders them over all windows of a communicator.
//
// A window may lie in the memory of a GPU that ncclMemAlloc gave: the stream copies then.
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/nccl/caught.h"
#include "plugins/nccl/comm.h"

namespace tutti::nccl {
namespace {

/// Of each type, in NCCL's order.
constexpr size_t kElementBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
static_assert(std::size(kElementBytes) == ncclNumTypes);

/// NCCL 2.30 takes signal 0 of context 0 alone; 2.31 as many of both as the configuration says.
ncclResult_t check_signal(const char* function, int signal, int context) {
  if (signal < 0 || signal >= TUTTI_WINDOW_SIGNALS) {
    return refuse(function, "signal " + std::to_string(signal) + "; there are " +
                                std::to_string(TUTTI_WINDOW_SIGNALS) + ", from 0");
  }
  if (context == 0) return ncclSuccess;
  return refuse(function, "context " + std::to_string(context) + "; it must be 0");
}

ncclResult_t check_flags(const char* function, unsigned int flags) {
  return flags == 0 ? ncclSuccess : refuse(function, "the flags must be 0");
}

/// The communicator's signals, once it has had a window.
ncclResult_t signals_of(ncclComm_t comm, const char* function, tuttiWindow_t& signals) {
  if (const ncclResult_t bad = check_usable(comm, function); bad != ncclSuccess) return bad;
  const std::lock_guard lock(comm->mutex);
  signals = comm->signals;
  if (signals != nullptr) return ncclSuccess;
  return misuse(function,
                "the communicator has no window yet, and its signals come with the first one: call "
                "ncclCommWindowRegister on every rank before");
}

ncclResult_t window_of(ncclComm_t comm, const char* function, ncclWindow_t handle,
                       tuttiWindow_t& window) {
  const std::lock_guard lock(comm->mutex);
  const auto found = comm->windows.find(handle);
  if (found == comm->windows.end()) {
    return refuse(function, "the handle is not a window of this communicator");
  }
  window = found->second->window;
  if (window != nullptr) return ncclSuccess;
  return unsupported(function,
                     "the window is none for one-sided access, since its memory lies in "
                     "a GPU on some rank: " +
                         found->second->why_none);
}

ncclResult_t bytes_of(const char* function, size_t count, int type, size_t& bytes) {
  const auto index = static_cast<size_t>(type);
  if (index >= std::size(kElementBytes)) return refuse(function, "unknown data type");
  if (!__builtin_mul_overflow(count, kElementBytes[index], &bytes)) return ncclSuccess;
  return refuse(function, "the count is larger than memory");
}

struct Put {
  const void* source;
  size_t count;
  int type;  // an ncclDataType_t, if it is one
  int peer;
  ncclWindow_t window;
  size_t offset;
  int signal;
  cudaStream_t stream;
};

ncclResult_t put_signal(ncclComm_t comm, const Put& put, int context, unsigned int flags) {
  constexpr char kName[] = "ncclPutSignal";
  tuttiWindow_t signals = nullptr, window = nullptr;
  size_t bytes = 0;
  ncclResult_t bad = signals_of(comm, kName, signals);
  if (bad == ncclSuccess) bad = window_of(comm, kName, put.window, window);
  if (bad == ncclSuccess) bad = bytes_of(kName, put.count, put.type, bytes);
  if (bad == ncclSuccess) bad = check_signal(kName, put.signal, context);
  if (bad == ncclSuccess) bad = check_flags(kName, flags);
  if (bad != ncclSuccess) return bad;
  return operate(comm, kName, {{put.source}, put.stream}, [&](tuttiComm_t, tuttiStream_t where) {
    const tuttiResult_t result = tuttiPut(put.source, bytes, put.peer, window, put.offset, where);
    if (result != tuttiSuccess) return result;
    return tuttiSignal(put.peer, signals, static_cast<uint32_t>(put.signal), where);
  });
}

struct Signal {
  int peer;
  int number;
  cudaStream_t stream;
};

ncclResult_t signal(ncclComm_t comm, const Signal& asked, int context, unsigned int flags) {
  constexpr char kName[] = "ncclSignal";
  tuttiWindow_t signals = nullptr;
  ncclResult_t bad = signals_of(comm, kName, signals);
  if (bad == ncclSuccess) bad = check_signal(kName, asked.number, context);
  if (bad == ncclSuccess) bad = check_flags(kName, flags);
  if (bad != ncclSuccess) return bad;
  return operate(comm, kName, {.stream = asked.stream}, [&](tuttiComm_t, tuttiStream_t where) {
    return tuttiSignal(asked.peer, signals, static_cast<uint32_t>(asked.number), where);
  });
}

/// For all of them; none is waited for if one is refused.
ncclResult_t wait(ncclComm_t comm, int count, const ncclWaitSignalDesc_t* waits,
                  cudaStream_t stream) {
  constexpr char kName[] = "ncclWaitSignal";
  tuttiWindow_t signals = nullptr;
  if (const ncclResult_t bad = signals_of(comm, kName, signals); bad != ncclSuccess) return bad;
  if (count <= 0) return refuse(kName, "there are no descriptors");
  if (waits == nullptr) return refuse(kName, "the descriptors are null");
  const int ranks = world_of(comm).nRanks;
  const std::vector<ncclWaitSignalDesc_t> all(waits, waits + count);
  for (const ncclWaitSignalDesc_t& one : all) {
    const ncclResult_t bad = check_signal(kName, one.sigIdx, one.ctx);
    if (bad != ncclSuccess) return bad;
    if (one.opCnt <= 0) return refuse(kName, "an opCnt is not positive");
    if (one.peer < 0 || one.peer >= ranks) return refuse(kName, "a peer is not a rank");
  }
  return operate(comm, kName, {.stream = stream}, [&](tuttiComm_t, tuttiStream_t where) {
    tuttiResult_t result = tuttiSuccess;
    for (size_t i = 0; i < all.size() && result == tuttiSuccess; ++i) {
      result = tuttiWaitSignal(all[i].peer, signals, static_cast<uint32_t>(all[i].sigIdx),
                               static_cast<uint64_t>(all[i].opCnt), where);
    }
    return result;
  });
}

}  // namespace
}  // namespace tutti::nccl

extern "C" {

ncclResult_t pncclPutSignal(const void* source, size_t count, ncclDataType_t type, int peer,
                            ncclWindow_t window, size_t offset, int number, int context,
                            unsigned int flags, ncclComm_t comm, cudaStream_t stream) {
  return tutti::nccl::caught([&] {
    return tutti::nccl::part_of_group(tutti::nccl::put_signal(
        comm, {source, count, tutti::nccl::number_of(type), peer, window, offset, number, stream},
        context, flags));
  });
}

ncclResult_t pncclSignal(int peer, int number, int context, unsigned int flags, ncclComm_t comm,
                         cudaStream_t stream) {
  return tutti::nccl::caught([&] {
    return tutti::nccl::part_of_group(
        tutti::nccl::signal(comm, {peer, number, stream}, context, flags));
  });
}

ncclResult_t pncclWaitSignal(int count, ncclWaitSignalDesc_t* waits, ncclComm_t comm,
                             cudaStream_t stream) {
  return tutti::nccl::caught(
      [&] { return tutti::nccl::part_of_group(tutti::nccl::wait(comm, count, waits, stream)); });
}

[[gnu::weak, gnu::alias("pncclPutSignal")]] decltype(pncclPutSignal) ncclPutSignal;
[[gnu::weak, gnu::alias("pncclSignal")]] decltype(pncclSignal) ncclSignal;
[[gnu::weak, gnu::alias("pncclWaitSignal")]] decltype(pncclWaitSignal) ncclWaitSignal;

}  // extern "C"
