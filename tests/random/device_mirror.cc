#include "tests/random/device_mirror.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/device.h"
#include "src/drivers/cuda/memory.h"
#include "src/drivers/cuda/stream.h"

namespace tutti::random_calls {
namespace {

namespace driver = drivers::cuda;

constexpr uint64_t kAlignment = 256;
constexpr uint64_t kLine = 64;

void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "the device of the test: %s\n", std::string(status.message()).c_str());
  std::abort();
}

class CudaMirror final : public DeviceMirror {
 public:
  CudaMirror(const driver::Cuda& cuda, driver::PrimaryContext context,
             std::array<driver::DeviceMemory, 2> memory, std::array<driver::CudaStream, 2> streams)
      : cuda_(cuda),
        context_(std::move(context)),
        memory_(std::move(memory[0])),
        registered_(std::move(memory[1])),
        streams_(std::move(streams)) {}

  tuttiStream_t stream(size_t index) const override {
    return tuttiStreamCuda(streams_[index].get());
  }
  void synchronize(size_t index) override {
    const driver::ContextScope scope(cuda_, context_.get());
    must(streams_[index].synchronize());
  }
  std::byte* push(const Block& block) override {
    const uint64_t bytes = block.whole().size();
    // The same place in a line as the host's: an odd address stays one.
    const uint64_t shift = reinterpret_cast<uintptr_t>(block.whole().data()) % kAlignment;
    const driver::CUdeviceptr begin = memory_.address() + used_ + shift;
    used_ += (shift + bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (used_ > memory_.bytes()) must(Status::system_error("a batch takes too much"));
    copy(begin, address_of(block.whole().data()), bytes);
    return reinterpret_cast<std::byte*>(begin) + (block.data() - block.whole().data());
  }
  // A line's place is the same on all ranks that begin blocks alike, a greater alignment is not.
  std::byte* push_at(uint64_t place, const Block& block) override {
    const uint64_t bytes = block.whole().size();
    const uint64_t shift = reinterpret_cast<uintptr_t>(block.whole().data()) % kLine;
    if (place + shift + bytes > registered_.bytes()) must(Status::system_error("no such place"));
    const driver::CUdeviceptr begin = registered_.address() + place + shift;
    copy(begin, address_of(block.whole().data()), bytes);
    return reinterpret_cast<std::byte*>(begin) + (block.data() - block.whole().data());
  }
  std::byte* registered() const override {
    return reinterpret_cast<std::byte*>(registered_.address());
  }
  void pull(const Block& block, const std::byte* device) override {
    const std::byte* begin = device - (block.data() - block.whole().data());
    copy(address_of(block.whole().data()), address_of(begin), block.whole().size());
  }
  void reset() override { used_ = 0; }

 private:
  static driver::CUdeviceptr address_of(const std::byte* memory) {
    return reinterpret_cast<driver::CUdeviceptr>(memory);
  }
  void copy(driver::CUdeviceptr target, driver::CUdeviceptr source, uint64_t bytes) {
    const driver::ContextScope scope(cuda_, context_.get());
    const driver::CUstream own = streams_[0].get();
    must(cuda_.check(cuda_.call.cuMemcpyAsync(target, source, bytes, own), "cuMemcpyAsync"));
    must(streams_[0].synchronize());
  }

  const driver::Cuda& cuda_;
  const driver::PrimaryContext context_;
  const driver::DeviceMemory memory_;
  const driver::DeviceMemory registered_;
  const std::array<driver::CudaStream, 2> streams_;
  uint64_t used_ = 0;
};

}  // namespace

int DeviceMirror::device_of(int index) { return index % driver::find().value().devices(); }

std::unique_ptr<DeviceMirror> DeviceMirror::open(int index, std::string& why) {
  const Result<driver::Cuda>& cuda = driver::find();
  if (!cuda.ok()) {
    why = std::string(cuda.status().message());
    return nullptr;
  }
  const driver::CUdevice device = device_of(index);
  Result<driver::PrimaryContext> context = driver::PrimaryContext::retain(cuda.value(), device);
  must(context.status());
  // For all that the thread calls: a program that uses CUDA has set a device.
  must(cuda.value().check(cuda.value().call.cuCtxPushCurrent(context.value().get()),
                          "cuCtxPushCurrent"));
  Result<driver::DeviceMemory> memory =
      driver::DeviceMemory::allocate(cuda.value(), device, kBytes);
  must(memory.status());
  Result<driver::DeviceMemory> registered =
      driver::DeviceMemory::allocate(cuda.value(), device, kBytes);
  must(registered.status());
  Result<driver::CudaStream> first = driver::CudaStream::create(cuda.value());
  Result<driver::CudaStream> second = driver::CudaStream::create(cuda.value());
  must(first.status());
  must(second.status());
  return std::make_unique<CudaMirror>(
      cuda.value(), std::move(context).value(),
      std::array{std::move(memory).value(), std::move(registered).value()},
      std::array{std::move(first).value(), std::move(second).value()});
}

}  // namespace tutti::random_calls
