#include "src/runtime/step_memory.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

class HostStepMemory final : public StepMemory {
 public:
  HostStepMemory() { expect_success(tuttiStreamCreate(&stream_), "tuttiStreamCreate"); }
  ~HostStepMemory() override { tuttiStreamDestroy(stream_); }
  HostStepMemory(const HostStepMemory&) = delete;
  HostStepMemory& operator=(const HostStepMemory&) = delete;

  tuttiStream_t stream() const override { return stream_; }
  Piece allocate(int64_t bytes) override {
    return {new std::byte[at(bytes)], std::default_delete<std::byte[]>()};
  }
  Piece zeros(int64_t bytes) override {
    if (bytes <= zero_bytes_) return zeros_;
    zeros_ = {new std::byte[at(bytes)](), std::default_delete<std::byte[]>()};
    zero_bytes_ = bytes;
    return zeros_;
  }
  void copy(std::byte* to, const void* from, int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, at(bytes));
  }
  void change(void* memory, int64_t bytes, const Work& work) override { work(memory, bytes); }

 private:
  tuttiStream_t stream_ = tuttiBlocking();
  Piece zeros_;
  int64_t zero_bytes_ = 0;
};

/// The communicator of this rank alone, at the device of the other one.
tuttiComm_t alone_of(tuttiComm_t comm) {
  int rank = 0, ranks = 0;
  expect_success(tuttiCommUserRank(comm, &rank), comm, "tuttiCommUserRank");
  expect_success(tuttiCommCount(comm, &ranks), comm, "tuttiCommCount");
  std::vector<int> others;
  for (int other = 0; other < ranks; ++other) {
    if (other != rank) others.push_back(other);
  }
  tuttiComm_t made = nullptr;
  const auto count = static_cast<int>(others.size());
  tuttiResult_t result = tuttiCommShrink(comm, others.data(), count, &made, nullptr, 0);
  while (result == tuttiInProgress) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    expect_success(tuttiCommGetAsyncError(made, &result), made, "tuttiCommGetAsyncError");
  }
  expect_success(result, comm, "a communicator of this rank alone (tuttiCommShrink)");
  return made;
}

class DeviceStepMemory final : public StepMemory {
 public:
  DeviceStepMemory(tuttiComm_t comm, tuttiStream_t stream)
      : alone_(alone_of(comm)), stream_(stream) {}
  ~DeviceStepMemory() override { tuttiCommAbort(alone_); }
  DeviceStepMemory(const DeviceStepMemory&) = delete;
  DeviceStepMemory& operator=(const DeviceStepMemory&) = delete;

  tuttiStream_t stream() const override { return stream_; }

  /// Of a block, since the library allocates whole pages of the device.
  Piece allocate(int64_t bytes) override {
    constexpr int64_t kLine = 256, kLeastBlock = int64_t{8} << 20;
    const int64_t needed = (std::max<int64_t>(bytes, 1) + kLine - 1) / kLine * kLine;
    if (needed > block_left_) {
      const int64_t more = std::max(needed, kLeastBlock);
      void* memory = nullptr;
      const tuttiResult_t result = tuttiMemAllocFor(&memory, at(more), stream_);
      if (result == tuttiSystemError) throw std::bad_alloc();
      expect_success(result, "tuttiMemAllocFor");
      block_ = {static_cast<std::byte*>(memory), [](std::byte* block) { tuttiMemFree(block); }};
      block_left_ = more;
      next_ = block_.get();
    }
    Piece piece(block_, next_);
    next_ += needed;
    block_left_ -= needed;
    return piece;
  }

  Piece zeros(int64_t bytes) override {
    if (bytes <= zero_bytes_) return zeros_;
    const std::vector<std::byte> source(at(bytes));
    Piece made = allocate(bytes);
    move_by_host(made.get(), source.data(), bytes);
    zeros_ = std::move(made);
    zero_bytes_ = bytes;
    return zeros_;
  }

  void copy(std::byte* to, const void* from, int64_t bytes) override {
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    if (bytes > 0) put(to, from, bytes, options, nullptr);
  }

  void change(void* memory, int64_t bytes, const Work& work) override {
    constexpr int64_t kPiece = int64_t{4} << 20;
    std::vector<std::byte> here(at(std::min(bytes, kPiece)));
    for (int64_t from = 0; from < bytes; from += kPiece) {
      std::byte* const there = static_cast<std::byte*>(memory) + from;
      const int64_t length = std::min(kPiece, bytes - from);
      move_by_host(here.data(), there, length);
      work(here.data(), length);
      move_by_host(there, here.data(), length);
    }
  }

 private:
  /// Between the device and the host, and waits until that is done.
  void move_by_host(void* to, const void* from, int64_t bytes) {
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.engine = tuttiEngineHost;
    tuttiRequest_t request = nullptr;
    put(to, from, bytes, options, &request);
    expect_success(tuttiRequestWait(request), "a copy between the host and a device");
  }

  /// Without a deadline: the stream may be waiting for a peer, which other calls have deadlines
  /// for.
  void put(void* to, const void* from, int64_t bytes, tuttiOptions_t& options,
           tuttiRequest_t* request) {
    options.timeout_ns = UINT64_MAX;
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = tuttiCollAllGather;
    call.send = from;
    call.recv = to;
    call.count = at(bytes);
    call.type = tuttiUint8;
    expect_success(tuttiSubmit(&call, alone_, stream_, &options, request), alone_,
                   "a copy on the stream of a device");
  }

  const tuttiComm_t alone_;
  const tuttiStream_t stream_;
  Piece block_, zeros_;
  std::byte* next_ = nullptr;
  int64_t block_left_ = 0, zero_bytes_ = 0;
};

}  // namespace

std::unique_ptr<StepMemory> StepMemory::open(tuttiComm_t comm, tuttiStream_t stream) {
  require(stream.kind != tuttiStreamHost,
          "a HOST stream: pass none, for memory of the host, or the stream of a device");
  if (stream.kind == tuttiStreamBlocking) return std::make_unique<HostStepMemory>();
  return std::make_unique<DeviceStepMemory>(comm, stream);
}

}  // namespace tutti::runtime
