#include "perf/collectives/cuda_device.h"

#include <string>
#include <utility>

#include "perf/collectives/error.h"
#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/driver.h"
#include "src/drivers/cuda/stream.h"

namespace tutti::perf {
namespace {

namespace driver = drivers::cuda;

void check(const Status& status) {
  if (!status.ok()) throw PerfError("--device cuda: " + std::string(status.message()));
}

template <class Value>
Value must(Result<Value> result) {
  check(result.status());
  return std::move(result).value();
}

/// A point in a stream whose time is known once the stream has come there.
class Clock {
 public:
  explicit Clock(const driver::Cuda& cuda) : cuda_(cuda) {
    constexpr unsigned kTimed = 0;
    check(cuda.check(cuda.call.cuEventCreate(&event_, kTimed), "cuEventCreate"));
  }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  ~Clock() { cuda_.call.cuEventDestroy(event_); }

  void read(driver::CUstream stream) {
    check(cuda_.check(cuda_.call.cuEventRecord(event_, stream), "cuEventRecord"));
  }
  double us_since(const Clock& earlier) const {
    constexpr double kUsPerMs = 1000;
    float ms = 0;
    const auto result = cuda_.call.cuEventElapsedTime(&ms, earlier.event_, event_);
    check(cuda_.check(result, "cuEventElapsedTime"));
    return static_cast<double>(ms) * kUsPerMs;
  }

 private:
  const driver::Cuda& cuda_;
  driver::CUevent event_ = nullptr;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(const driver::Cuda& cuda, int number)
      : cuda_(cuda),
        context_(must(driver::PrimaryContext::retain(cuda, device_of(cuda, number)))),
        scope_(cuda, context_.get()),
        stream_(must(driver::CudaStream::create(cuda))),
        begin_(cuda),
        end_(cuda) {
    check(scope_.status());
  }

  int number() const override { return context_.device(); }
  tuttiStream_t stream() const override { return tuttiStreamCuda(stream_.get()); }

  void copy(std::byte* target, const std::byte* source, size_t bytes) override {
    if (bytes == 0) return;
    const auto result = cuda_.call.cuMemcpyAsync(reinterpret_cast<driver::CUdeviceptr>(target),
                                                 reinterpret_cast<driver::CUdeviceptr>(source),
                                                 bytes, stream_.get());
    check(cuda_.check(result, "cuMemcpyAsync"));
    synchronize();
  }

  void synchronize() override { check(stream_.synchronize()); }
  void begin_timing() override { begin_.read(stream_.get()); }

  double end_timing_us() override {
    end_.read(stream_.get());
    synchronize();
    return end_.us_since(begin_);
  }

 private:
  static driver::CUdevice device_of(const driver::Cuda& cuda, int number) {
    driver::CUdevice device = 0;
    check(cuda.check(cuda.call.cuDeviceGet(&device, number % cuda.devices()), "cuDeviceGet"));
    return device;
  }

  const driver::Cuda& cuda_;
  const driver::PrimaryContext context_;
  const driver::ContextScope scope_;
  const driver::CudaStream stream_;
  Clock begin_, end_;
};

}  // namespace

std::unique_ptr<Device> open_cuda_device(int number) {
  const Result<driver::Cuda>& cuda = driver::find();
  check(cuda.status());
  return std::make_unique<CudaDevice>(cuda.value(), number);
}

}  // namespace tutti::perf
