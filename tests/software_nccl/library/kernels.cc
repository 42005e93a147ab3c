// The work of the stand-in's kernels: they begin when all ranks have launched, and look at their
// communicator's end all the time.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "src/drivers/cuda/functions.h"
#include "tests/software_device/hooks.h"
#include "tests/software_nccl/library/arithmetic.h"
#include "tests/software_nccl/library/comm.h"
#include "tests/software_nccl/library/settings.h"

namespace softnccl {
namespace {

using namespace tutti::drivers::cuda::api;  // NOLINT(build/namespaces)
using Touch = decltype(&softdev_touch);

class Running {
 public:
  Running(const Launch& launch, Touch touch, int device)
      : launch_(launch), comm_(*launch.comm), touch_(touch), device_(device) {}

  bool go() {
    const bool is_meant = settings().is_about(comm_.rank);
    if (is_meant && settings().stuck_at == launch_.number) return await([] { return false; });
    if (is_meant && settings().async_at == launch_.number) {
      comm_.failed.store(true);
      return await([] { return false; });
    }
    if (is_meant) std::this_thread::sleep_for(std::chrono::milliseconds(settings().late_ms));
    if (launch_.kind == Kind::kTransfers) return transfer();
    return meet() && exchange();
  }

 private:
  bool await(const std::function<bool()>& is_there) {
    while (!is_there()) {
      if (comm_.aborted.load()) return false;
      std::this_thread::yield();
    }
    return true;
  }

  bool meet() {
    const uint64_t step = ++comm_.steps;
    comm_.board->steps[comm_.rank].store(step);
    return await([&] {
      for (int rank = 0; rank < comm_.ranks; ++rank) {
        if (comm_.board->steps[rank].load() < step) return false;
      }
      return true;
    });
  }

  char* find(const char* address, size_t bytes, bool writes) {
    return static_cast<char*>(touch_(reinterpret_cast<uint64_t>(address), bytes, device_, writes));
  }

  /// Shows `bytes` of `mine` to all, then does `take` with what all ranks show.
  bool round(const char* mine, size_t bytes, const std::function<void()>& take) {
    if (mine != nullptr) {
      const char* const found = find(mine, bytes, false);
      if (found == nullptr) return false;
      std::memcpy(area(comm_.rank), found, bytes);
      if (launch_.is_scaled && !scale(bytes)) return false;
    }
    if (!meet()) return false;
    take();
    return meet();
  }

  bool exchange() {
    const size_t element = bytes_of(launch_.type);
    const size_t most = kAreaBytes / element;
    const bool scatters = launch_.kind == Kind::kReduceScatter;
    for (int block = 0; block < (scatters ? comm_.ranks : 1); ++block) {
      for (size_t at = 0; at < launch_.count; at += most) {
        const size_t count = std::min(most, launch_.count - at);
        if (!part(block, at, count, element)) return false;
      }
    }
    return true;
  }

  bool part(int block, size_t at, size_t count, size_t element) {
    const size_t place = (static_cast<size_t>(block) * launch_.count + at) * element;
    const size_t bytes = count * element;
    const bool is_root = comm_.rank == launch_.root;
    switch (launch_.kind) {
      case Kind::kBroadcast:
        return round(is_root ? launch_.send + place : nullptr, bytes,
                     [&] { keep(launch_.root, launch_.recv + place, bytes); });
      case Kind::kAllGather:
        return round(launch_.send + place, bytes, [&] {
          for (int rank = 0; rank < comm_.ranks; ++rank) {
            const size_t before = static_cast<size_t>(rank) * launch_.count * element;
            keep(rank, launch_.recv + before + place, bytes);
          }
        });
      default: {
        const bool takes = launch_.kind == Kind::kAllReduce ||
                           (launch_.kind == Kind::kReduce ? is_root : comm_.rank == block);
        char* const target = launch_.recv + at * element;
        return round(launch_.send + place, bytes, [&] {
          if (takes) fold(target, count, bytes);
        });
      }
    }
  }

  /// A plant: it is as if nothing had come.
  bool loses() const {
    return settings().is_about(comm_.rank) && settings().lose_at == launch_.number;
  }

  void keep(int from, char* target, size_t bytes) {
    if (loses()) return;
    char* const found = find(target, bytes, true);
    if (found != nullptr) std::memcpy(found, area(from), bytes);
  }

  void fold(char* target, size_t count, size_t bytes) {
    if (loses()) return;
    char* const found = find(target, bytes, true);
    if (found == nullptr) return;
    std::vector<const char*> sources;
    for (int rank = 0; rank < comm_.ranks; ++rank) sources.push_back(area(rank));
    softnccl::fold(launch_.type, launch_.is_scaled ? ncclSum : launch_.op, sources, found, count);
  }

  /// The rank shows what it brings to a scaled sum.
  bool scale(size_t bytes) {
    const Factor& factor = launch_.factor;
    const size_t element = bytes_of(launch_.type);
    const auto* const scalar = factor.memory == nullptr
                                   ? factor.value
                                   : find(static_cast<const char*>(factor.memory), element, false);
    if (scalar == nullptr) return false;
    multiply(launch_.type, scalar, area(comm_.rank), bytes / element);
    return true;
  }

  char* area(int rank) { return comm_.board->areas[rank]; }

  bool transfer() {
    std::vector<size_t> moved(launch_.messages.size(), 0);
    std::vector<bool> done(launch_.messages.size(), false);
    return await([&] {
      bool all = true;
      std::vector<bool> is_busy(2 * kMostRanks, false);  // messages of a pair follow each other
      for (size_t i = 0; i < launch_.messages.size(); ++i) {
        const Message& message = launch_.messages[i];
        const size_t way = static_cast<size_t>(message.peer) * 2 + (message.is_send ? 1 : 0);
        if (done[i] || is_busy[way]) continue;
        is_busy[way] = true;
        done[i] = message.is_send ? push(message, moved[i]) : pull(message, moved[i]);
        all = all && done[i];
      }
      for (const bool one : done) all = all && one;
      return all;
    });
  }

  bool push(const Message& message, size_t& moved) {
    Pair& pair = comm_.board->pairs[comm_.rank][message.peer];
    uint64_t& sent = comm_.sent[message.peer];
    if (pair.taken.load() < sent) return false;
    if (moved == message.bytes) return true;
    const size_t bytes = std::min(kPairBytes, message.bytes - moved);
    const char* const found = find(message.data + moved, bytes, false);
    if (found != nullptr) std::memcpy(pair.data, found, bytes);
    moved += bytes;
    pair.sent.store(++sent);
    return false;
  }

  bool pull(const Message& message, size_t& moved) {
    if (moved == message.bytes) return true;
    Pair& pair = comm_.board->pairs[message.peer][comm_.rank];
    uint64_t& taken = comm_.taken[message.peer];
    if (pair.sent.load() <= taken) return false;
    const size_t bytes = std::min(kPairBytes, message.bytes - moved);
    char* const found = find(message.data + moved, bytes, true);
    if (found != nullptr) std::memcpy(found, pair.data, bytes);
    moved += bytes;
    pair.taken.store(++taken);
    return moved == message.bytes;
  }

  const Launch& launch_;
  ncclComm& comm_;
  const Touch touch_;
  const int device_;
};

struct Device {
  CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     unsigned, CUstream, void**, void**) = nullptr;
  CUresult (*allocate)(CUdeviceptr*, size_t) = nullptr;
  CUresult (*release)(CUdeviceptr) = nullptr;
  Touch touch = nullptr;
  CUfunction function = nullptr;
};

Device& device() {
  static Device known;
  return known;
}

void kernel(const SoftdevLaunch& launched, void** parameters) {
  const Launch& launch = **static_cast<Launch**>(parameters[0]);
  const bool done = Running(launch, device().touch, launched.device).go();
  log(std::string("kernel ") + (done ? "done" : "given up"));
  launch.comm->running.fetch_sub(1);
}

}  // namespace

ncclResult_t load_kernels() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (device().function != nullptr) return ncclSuccess;
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return ncclUnhandledCudaError;
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(driver, "cuGetProcAddress_v2"));
  const auto add = reinterpret_cast<decltype(&softdev_register_kernel)>(
      dlsym(driver, "softdev_register_kernel"));
  device().touch = reinterpret_cast<Touch>(dlsym(driver, "softdev_touch"));
  if (get == nullptr || add == nullptr || device().touch == nullptr) return ncclUnhandledCudaError;
  constexpr size_t kBytes[] = {sizeof(Launch*)};
  add("softnccl_kernel", kernel, kBytes, 1);
  CUresult (*load)(CUmodule*, const void*) = nullptr;
  CUresult (*find)(CUfunction*, CUmodule, const char*) = nullptr;
  CUdriverProcAddressQueryResult found = kProcAddressNotFound;
  get("cuModuleLoadData", reinterpret_cast<void**>(&load), 2000, 0, &found);
  get("cuModuleGetFunction", reinterpret_cast<void**>(&find), 2000, 0, &found);
  get("cuMemAlloc", reinterpret_cast<void**>(&device().allocate), 3020, 0, &found);
  get("cuMemFree", reinterpret_cast<void**>(&device().release), 3020, 0, &found);
  get("cuLaunchKernel", reinterpret_cast<void**>(&device().launch), 4000, 0, &found);
  CUmodule module = nullptr;
  if (load(&module, "any") != kSuccess) return ncclUnhandledCudaError;
  const CUresult asked = find(&device().function, module, "softnccl_kernel");
  return asked == kSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t take_memory(ncclComm* comm) {
  CUdeviceptr address = 0;
  const auto bytes = static_cast<size_t>(settings().memory_kb) << 10;
  if (device().allocate(&address, bytes) != kSuccess) return ncclUnhandledCudaError;
  comm->memory = address;
  return ncclSuccess;
}

void give_memory_back(ncclComm* comm) {
  if (comm->memory != 0) (void)device().release(comm->memory);
  comm->memory = 0;
}

// A graph may run it again, so it stays as long as its communicator. A captured one counts as
// running when its graph runs, which nobody waits for here.
ncclResult_t launch(std::unique_ptr<Launch> launch) {
  ncclComm& comm = *launch->comm;
  launch->number = ++comm.launched;
  Launch* pointer = launch.get();
  comm.launches.push_back(std::move(launch));
  void* parameters[] = {&pointer};
  comm.running.fetch_add(1);
  const CUresult put =
      device().launch(device().function, 1, 1, 1, 32, 1, 1, 0,
                      reinterpret_cast<CUstream>(pointer->stream), parameters, nullptr);
  if (put == kSuccess) return ncclSuccess;
  comm.running.fetch_sub(1);
  return ncclUnhandledCudaError;
}

}  // namespace softnccl
