#include "src/engines/cuda/device.h"

#include <string>

#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/device.h"
#include "src/drivers/cuda/driver.h"
#include "src/engines/cuda/crossing.h"

namespace tutti::engines::cuda {
namespace {

using drivers::cuda::AddressFacts;
using drivers::cuda::AddressKind;
using drivers::cuda::CUcontext;
using drivers::cuda::Cuda;
using drivers::cuda::CUstream;

/// Of the stream; for the legacy stream, the calling thread's.
Result<CUcontext> context_of(const Cuda& cuda, CUstream stream) {
  CUcontext context = nullptr;
  if (stream == nullptr) {
    Status status = cuda.check(cuda.call.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    if (!status.ok()) return status;
    if (context == nullptr) {
      return Status::invalid_usage(
          "the legacy CUDA stream needs a current device in the calling thread: call "
          "cudaSetDevice(), or pass a stream of the device");
    }
    return context;
  }
  Status status = cuda.check(cuda.call.cuStreamGetCtx(stream, &context), "cuStreamGetCtx");
  if (!status.ok()) return status;
  return context;
}

class CudaDevice final : public exec::Device {
 public:
  std::string_view name() const override { return "cuda"; }
  bool is_present() const override { return drivers::cuda::is_loaded_in_process(); }

  Result<exec::MemoryPlace> place_of(const void* address) const override {
    if (!is_present()) return exec::MemoryPlace::kHost;
    const Result<Cuda>& cuda = drivers::cuda::find();
    if (!cuda.ok()) return exec::MemoryPlace::kHost;
    const Result<AddressFacts> facts = drivers::cuda::inspect_address(cuda.value(), address);
    if (!facts.ok()) return facts.status();
    const AddressKind kind = facts.value().kind;
    const bool is_device = kind == AddressKind::kDevice || kind == AddressKind::kManaged;
    return is_device ? exec::MemoryPlace::kDevice : exec::MemoryPlace::kHost;
  }

  Result<std::shared_ptr<exec::Crossing>> cross(void* handle, const exec::DevicePieces& input,
                                                const exec::DevicePieces& output) override {
    const Result<Cuda>& cuda = drivers::cuda::find();
    if (!cuda.ok()) return cuda.status();
    auto* const stream = static_cast<CUstream>(handle);
    const Result<CUcontext> context = context_of(cuda.value(), stream);
    if (!context.ok()) return context.status();
    const drivers::cuda::ContextScope scope(cuda.value(), context.value());
    if (!scope.status().ok()) return scope.status();
    const Result<bool> captured = drivers::cuda::is_captured(cuda.value(), stream);
    if (!captured.ok()) return captured.status();
    if (captured.value()) {
      return Status::unsupported(
          "the stream is being captured into a CUDA graph, and Tutti's calls cannot be captured "
          "yet: call outside of the capture");
    }
    return CudaCrossing::create(pool(cuda.value()), {context.value(), stream}, input, output);
  }

 private:
  // It is never destroyed: its memory goes with the process, since the driver may go first.
  static CrossingPool& pool(const Cuda& cuda) {
    // tidy: allow mutable (one pool of pinned memory for all communicators of the process)
    static auto* const known = new CrossingPool(cuda);
    return *known;
  }
};

}  // namespace

exec::Device& device() {
  // tidy: allow mutable (it has no state of its own)
  static CudaDevice known;
  return known;
}

}  // namespace tutti::engines::cuda
