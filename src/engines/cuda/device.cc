#include "src/engines/cuda/device.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "src/base/mutex.h"
#include "src/drivers/cuda/capture.h"
#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/device.h"
#include "src/drivers/cuda/driver.h"
#include "src/drivers/cuda/memory.h"
#include "src/engines/cuda/call_order.h"
#include "src/engines/cuda/captured_host_staging.h"
#include "src/engines/cuda/device_rank.h"
#include "src/engines/cuda/host_staging.h"
#include "src/engines/cuda/peer_memory.h"

namespace tutti::engines::cuda {
namespace {

using drivers::cuda::AddressFacts;
using drivers::cuda::AddressKind;
using drivers::cuda::CUcontext;
using drivers::cuda::Cuda;
using drivers::cuda::CUstream;

/// Whether the handle means a stream of whichever context is current.
bool is_of_every_context(CUstream stream) {
  return drivers::cuda::is_legacy_stream(stream) ||
         reinterpret_cast<uintptr_t>(stream) == drivers::cuda::kStreamPerThread;
}

/// Of the stream; of one of every context, the calling thread's.
Result<CUcontext> context_of(const Cuda& cuda, CUstream stream) {
  CUcontext context = nullptr;
  if (is_of_every_context(stream)) {
    Status status = cuda.check(cuda.call.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    if (!status.ok()) return status;
    if (context == nullptr) {
      return Status::invalid_usage(
          "a default stream of CUDA needs a current device in the calling thread: call "
          "cudaSetDevice(), or pass a stream of the device");
    }
    return context;
  }
  Status status = cuda.check(cuda.call.cuStreamGetCtx(stream, &context), "cuStreamGetCtx");
  if (!status.ok()) return status;
  return context;
}

StreamInContext in_context(const exec::StreamPlace& where) {
  return {static_cast<CUcontext>(where.context), static_cast<CUstream>(where.stream)};
}

/// None: the place has no device, or the driver does not say.
std::optional<drivers::cuda::DeviceFacts> facts_of(const exec::StreamPlace& place) {
  if (place.context == nullptr) return std::nullopt;
  const Cuda& cuda = drivers::cuda::find().value();
  const drivers::cuda::ContextScope scope(cuda, in_context(place).context);
  drivers::cuda::CUdevice device = 0;
  if (!scope.status().ok()) return std::nullopt;
  if (cuda.call.cuCtxGetDevice(&device) != drivers::cuda::kSuccess) return std::nullopt;
  const Result<drivers::cuda::DeviceFacts> facts = drivers::cuda::DeviceFacts::read(cuda, device);
  if (!facts.ok()) return std::nullopt;
  return facts.value();
}

class CudaAllocation final : public exec::DeviceAllocation {
 public:
  explicit CudaAllocation(drivers::cuda::DeviceMemory memory) : memory_(std::move(memory)) {}
  std::byte* data() const override { return reinterpret_cast<std::byte*>(memory_.address()); }

 private:
  drivers::cuda::DeviceMemory memory_;
};

class CudaDevice final : public exec::Device {
 public:
  bool is_present() const override { return drivers::cuda::is_loaded_in_process(); }

  Result<exec::MemoryPlace> place_of(const void* address) const override {
    if (!is_present()) return exec::MemoryPlace::kHost;
    const Result<Cuda>& cuda = drivers::cuda::find();
    if (!cuda.ok()) return exec::MemoryPlace::kHost;
    const Result<AddressFacts> facts = drivers::cuda::inspect_address(cuda.value(), address);
    if (!facts.ok()) return facts.status();
    switch (facts.value().kind) {
      case AddressKind::kHost:
        return exec::MemoryPlace::kHost;
      case AddressKind::kPinned:
        return exec::MemoryPlace::kPinned;
      case AddressKind::kDevice:
      case AddressKind::kManaged:
        break;
    }
    return exec::MemoryPlace::kDevice;
  }

  Result<exec::StreamPlace> place_of_stream(void* handle,
                                            const exec::StreamPlace& home) const override {
    const Result<Cuda>& cuda = drivers::cuda::find();
    if (!cuda.ok()) return cuda.status();
    auto* const stream = static_cast<CUstream>(handle);
    // Streams can be asked about only where something is current.
    const std::shared_ptr<const void> entered =
        current().context == nullptr ? enter(home) : nullptr;
    const bool at_home = home.context != nullptr && is_of_every_context(stream);
    const Result<CUcontext> context =
        at_home ? in_context(home).context : context_of(cuda.value(), stream);
    if (!context.ok()) return context.status();
    const drivers::cuda::ContextScope scope(cuda.value(), context.value());
    if (!scope.status().ok()) return scope.status();
    const Result<drivers::cuda::Capture> capture =
        drivers::cuda::find_capture(cuda.value(), stream);
    if (!capture.ok()) return capture.status();
    return exec::StreamPlace{context.value(), handle, capture.value().id, capture.value().graph};
  }

  exec::StreamPlace current() const override {
    if (!is_present()) return {};
    const Result<Cuda>& cuda = drivers::cuda::find();
    CUcontext context = nullptr;
    const bool known =
        cuda.ok() && cuda.value().call.cuCtxGetCurrent(&context) == drivers::cuda::kSuccess;
    exec::StreamPlace place;
    if (known) place.context = context;
    return place;
  }

  // Where several are used nobody knows which one the thread means.
  exec::StreamPlace current_or_used() const override {
    exec::StreamPlace place = current();
    if (place.context != nullptr || count() == 0) return place;
    int used = -1;
    for (int number = 0; number < count(); ++number) {
      if (!drivers::cuda::PrimaryContext::is_active(drivers::cuda::find().value(), number))
        continue;
      if (used >= 0) return place;
      used = number;
    }
    const Result<exec::StreamPlace> found = used >= 0 ? place_of_device(used) : place;
    return found.ok() ? found.value() : place;
  }

  int count() const override {
    if (!is_present()) return 0;
    const Result<Cuda>& cuda = drivers::cuda::find();
    return cuda.ok() ? cuda.value().devices() : 0;
  }

  Result<exec::StreamPlace> place_of_device(int number) const override {
    using drivers::cuda::PrimaryContext;
    // tidy: allow mutable (a device is made usable once in a process, by whoever needs it first)
    static Mutex mutex;
    // tidy: allow mutable (never destroyed: the driver may go before)
    static auto* const contexts = new std::map<int, PrimaryContext>;
    const Result<Cuda>& cuda = drivers::cuda::find();
    if (!cuda.ok()) return cuda.status();
    const MutexLock lock(mutex);
    auto known = contexts->find(number);
    if (known == contexts->end()) {
      drivers::cuda::CUdevice device = 0;
      Status found =
          cuda.value().check(cuda.value().call.cuDeviceGet(&device, number), "cuDeviceGet");
      if (!found.ok()) return found;
      Result<PrimaryContext> context = PrimaryContext::retain(cuda.value(), device);
      if (!context.ok()) return context.status();
      known = contexts->emplace(number, std::move(context).value()).first;
    }
    return exec::StreamPlace{known->second.get(), nullptr};
  }

  std::string identity_of(const exec::StreamPlace& place) const override {
    const std::optional<drivers::cuda::DeviceFacts> facts = facts_of(place);
    return facts ? facts->identity() : "";
  }

  std::string bus_address_of(const exec::StreamPlace& place) const override {
    const std::optional<drivers::cuda::DeviceFacts> facts = facts_of(place);
    return facts ? facts->bus_address : "";
  }

  std::shared_ptr<const void> enter(const exec::StreamPlace& place) const override {
    if (place.context == nullptr) return nullptr;
    return std::make_shared<drivers::cuda::ContextScope>(drivers::cuda::find().value(),
                                                         in_context(place).context);
  }

  Result<std::shared_ptr<exec::HostStaging>> cross(const exec::StreamPlace& where,
                                                   const exec::DevicePieces& input,
                                                   const exec::DevicePieces& output) override {
    const Result<Cuda>& cuda = drivers::cuda::find();
    if (!cuda.ok()) return cuda.status();
    const StreamInContext place = in_context(where);
    const drivers::cuda::ContextScope scope(cuda.value(), place.context);
    if (!scope.status().ok()) return scope.status();
    return CudaHostStaging::create(HostStagingPool::of_process(cuda.value()), place, input, output);
  }

  Result<std::shared_ptr<exec::HostStaging>> cross_captured(
      const exec::StreamPlace& where, const exec::DevicePieces& input,
      const exec::DevicePieces& output, std::function<void()> arrived) override {
    const Result<Cuda>& cuda = drivers::cuda::find();
    if (!cuda.ok()) return cuda.status();
    const StreamInContext place = in_context(where);
    const drivers::cuda::ContextScope scope(cuda.value(), place.context);
    if (!scope.status().ok()) return scope.status();
    Result<std::unique_ptr<HostStagingCopies>> copies =
        HostStagingCopies::create(HostStagingPool::of_process(cuda.value()), input, output);
    if (!copies.ok()) return copies.status();
    return std::shared_ptr<exec::HostStaging>(std::make_shared<CapturedHostStaging>(
        std::move(copies).value(), place, std::move(arrived)));
  }

  Status keep(const exec::StreamPlace& where, std::shared_ptr<const void> kept) override {
    const Result<Cuda>& cuda = drivers::cuda::find();
    if (!cuda.ok()) return cuda.status();
    auto* const graph = static_cast<drivers::cuda::CUgraph>(where.graph);
    return drivers::cuda::keep_with(cuda.value(), graph, std::move(kept));
  }

  Result<std::shared_ptr<exec::CallOrder>> make_order() override {
    const Result<Cuda>& cuda = drivers::cuda::find();
    if (!cuda.ok()) return cuda.status();
    return std::shared_ptr<exec::CallOrder>(std::make_shared<CudaCallOrder>(cuda.value()));
  }

  void trim(const exec::StreamPlace& where) const override {
    const Result<Cuda>& cuda = drivers::cuda::find();
    if (!cuda.ok()) return;
    const drivers::cuda::ContextScope scope(cuda.value(), in_context(where).context);
    if (scope.status().ok()) HostStagingPool::of_process(cuda.value()).trim();
  }

  Result<std::unique_ptr<exec::DeviceRank>> open(exec::DeviceRankOptions options) override {
    const Result<Cuda>& cuda = drivers::cuda::find();
    if (!cuda.ok()) return cuda.status();
    const StreamInContext place = in_context(options.where);
    const drivers::cuda::ContextScope scope(cuda.value(), place.context);
    if (!scope.status().ok()) return scope.status();
    drivers::cuda::CUdevice device = 0;
    const Status found =
        cuda.value().check(cuda.value().call.cuCtxGetDevice(&device), "cuCtxGetDevice");
    if (!found.ok()) return found;
    return CudaDeviceRank::open(cuda.value(), device, place.context, std::move(options));
  }

  Result<std::shared_ptr<const exec::PeerMemory>> share(const exec::DeviceGroup& group,
                                                        std::byte* memory,
                                                        uint64_t bytes) override {
    const CUcontext context = in_context(group.where).context;
    if (context == nullptr) return CudaPeerMemory::take_part(group, memory != nullptr);
    const Cuda& cuda = drivers::cuda::find().value();
    const drivers::cuda::ContextScope scope(cuda, context);  // without it the driver says so
    drivers::cuda::CUdevice device = -1;
    (void)cuda.call.cuCtxGetDevice(&device);
    return CudaPeerMemory::share(cuda, device, group, memory, bytes);
  }

  Result<std::unique_ptr<exec::DeviceAllocation>> allocate(void* stream, size_t bytes) override {
    const Result<Cuda>& cuda = drivers::cuda::find();
    if (!cuda.ok()) return cuda.status();
    const Result<CUcontext> context = context_of(cuda.value(), static_cast<CUstream>(stream));
    if (!context.ok()) return context.status();
    const drivers::cuda::ContextScope scope(cuda.value(), context.value());
    if (!scope.status().ok()) return scope.status();
    drivers::cuda::CUdevice number = 0;
    Status asked = cuda.value().check(cuda.value().call.cuCtxGetDevice(&number), "cuCtxGetDevice");
    if (!asked.ok()) return asked;
    auto memory = drivers::cuda::DeviceMemory::allocate(cuda.value(), number, bytes);
    if (!memory.ok()) return memory.status();
    return std::unique_ptr<exec::DeviceAllocation>(
        std::make_unique<CudaAllocation>(std::move(memory).value()));
  }
};

}  // namespace

exec::Device& device() {
  // tidy: allow mutable (it has no state of its own)
  static CudaDevice known;
  return known;
}

}  // namespace tutti::engines::cuda
