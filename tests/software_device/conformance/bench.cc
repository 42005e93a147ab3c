#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "tests/software_device/conformance/facts.h"

namespace softdev {

Bench::Bench(Client opened, unsigned patience_s)
    : client(std::move(opened)), call(client.call()), more(client.more), patience_s_(patience_s) {
  if (call.cuDeviceGet(&device, 0) != kSuccess ||
      call.cuDevicePrimaryCtxRetain(&context, device) != kSuccess ||
      more.cuCtxSetCurrent(context) != kSuccess) {
    std::fprintf(stderr, "the device cannot be used\n");
    _exit(1);
  }
}

CUdeviceptr Bench::zeros(size_t bytes) const {
  CUdeviceptr address = 0;
  more.cuMemAlloc(&address, bytes);
  more.cuMemsetD8(address, 0, bytes);
  return address;
}

volatile uint32_t* Bench::pinned(size_t bytes) const {
  void* data = nullptr;
  call.cuMemHostAlloc(&data, bytes, 0);
  std::memset(data, 0, bytes);
  return static_cast<volatile uint32_t*>(data);
}

CUstream Bench::stream(unsigned flags) const {
  CUstream stream = nullptr;
  more.cuStreamCreate(&stream, flags);
  return stream;
}

CUstream Bench::held_stream() const {
  const CUdeviceptr word = zeros();
  CUstream held = stream();
  more.cuStreamWaitValue32(held, word, 1, kWaitAtLeast);
  return held;
}

uint32_t Bench::word_at(CUdeviceptr address) const {
  CUstream own = stream();
  volatile uint32_t* word = pinned();
  call.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(word), address, sizeof *word, own);
  call.cuStreamSynchronize(own);
  return *word;
}

CUresult Bench::copy_batch(CUdeviceptr target, CUdeviceptr source,
                           const BatchAttributes& attributes, CUstream stream) const {
  size_t bytes = 64;
  size_t failed = 0;
  BatchAttributes own = attributes;
  if (const CopyBatch130 copy = client.cuda().copy_batch_130()) {
    return copy(&target, &source, &bytes, 1, &own.attributes, &own.first, own.given, stream);
  }
  if (const CopyBatch128 copy = client.cuda().copy_batch_128()) {
    return copy(&target, &source, &bytes, 1, &own.attributes, &own.first, own.given, &failed,
                stream);
  }
  return kErrorNotFound;
}

std::string Bench::name(CUresult result) const {
  const char* text = nullptr;
  call.cuGetErrorName(result, &text);
  return text != nullptr ? text : std::to_string(result);
}

std::string Bench::end_of(CUstream stream) const { return name(call.cuStreamSynchronize(stream)); }

std::string Bench::comes_back(const std::function<void()>& work) const {
  const auto back = std::make_shared<std::atomic<bool>>(false);
  const auto set_current = more.cuCtxSetCurrent;
  std::thread([work, back, set_current, current = context] {
    set_current(current);
    work();
    *back = true;
  }).detach();
  const unsigned looks = 40 * patience_s_;
  for (unsigned i = 0; i < looks && !*back; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return *back ? "returns" : "blocks";
}

}  // namespace softdev
