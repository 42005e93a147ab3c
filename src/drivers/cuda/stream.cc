#include "src/drivers/cuda/stream.h"

#include <algorithm>
#include <array>

#include "src/drivers/cuda/context.h"

namespace tutti::drivers::cuda {
namespace {

/// Done, not yet, or an error of anything that ran on the device before.
Result<bool> done_of(const Cuda& cuda, CUresult result, const char* function) {
  if (result == kSuccess) return true;
  if (result == kErrorNotReady) return false;
  return cuda.error_status(result, function);
}

}  // namespace

Result<bool> is_captured(const Cuda& cuda, CUstream stream) {
  CUstreamCaptureStatus status = kCaptureNone;
  const CUresult result = cuda.call.cuStreamIsCapturing(stream, &status);
  if (result != kSuccess) return cuda.error_status(result, "cuStreamIsCapturing");
  if (status == kCaptureInvalidated) {
    return Status::invalid_usage(
        "the stream is being captured, and an earlier operation has made the capture invalid; end "
        "the capture and begin it again");
  }
  return status == kCaptureActive;
}

Result<int> priority_of(const Cuda& cuda, CUstream stream) {
  int priority = 0;
  const CUresult result = cuda.call.cuStreamGetPriority(stream, &priority);
  if (result != kSuccess) return cuda.error_status(result, "cuStreamGetPriority");
  return priority;
}

uint64_t identity_of(const Cuda& cuda, CUstream stream) {
  if (is_legacy_stream(stream) || reinterpret_cast<uintptr_t>(stream) == kStreamPerThread) return 0;
  unsigned long long id = 0;
  return cuda.call.cuStreamGetId(stream, &id) == kSuccess ? id : 0;
}

Result<CudaStream> CudaStream::create(const Cuda& cuda, int priority) {
  const UncapturedScope uncaptured(cuda);
  CUstream stream = nullptr;
  const CUresult result =
      cuda.call.cuStreamCreateWithPriority(&stream, kStreamNonBlocking, priority);
  if (result != kSuccess) return cuda.error_status(result, "cuStreamCreateWithPriority");
  return CudaStream(cuda, stream);
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr) cuda_->call.cuStreamDestroy(stream_);
}

Result<bool> CudaStream::is_done() const {
  return done_of(*cuda_, cuda_->call.cuStreamQuery(stream_), "cuStreamQuery");
}

Status CudaStream::synchronize() const {
  return cuda_->check(cuda_->call.cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

Result<CudaEvent> CudaEvent::create(const Cuda& cuda) {
  CUevent event = nullptr;
  const CUresult result = cuda.call.cuEventCreate(&event, kEventDisableTiming);
  if (result != kSuccess) return cuda.error_status(result, "cuEventCreate");
  return CudaEvent(cuda, event);
}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr) cuda_->call.cuEventDestroy(event_);
}

Status CudaEvent::record(CUstream stream) const {
  return cuda_->check(cuda_->call.cuEventRecord(event_, stream), "cuEventRecord");
}

Status CudaEvent::make_wait(CUstream stream) const {
  return cuda_->check(cuda_->call.cuStreamWaitEvent(stream, event_, 0), "cuStreamWaitEvent");
}

Status CudaEvent::record_outside(CUstream stream) const {
  const CUresult result = cuda_->call.cuEventRecordWithFlags(event_, stream, kEventRecordExternal);
  return cuda_->check(result, "cuEventRecordWithFlags");
}

Status CudaEvent::make_wait_outside(CUstream stream) const {
  const CUresult result = cuda_->call.cuStreamWaitEvent(stream, event_, kEventWaitExternal);
  return cuda_->check(result, "cuStreamWaitEvent");
}

Result<bool> CudaEvent::is_done() const {
  return done_of(*cuda_, cuda_->call.cuEventQuery(event_), "cuEventQuery");
}

void CopyBatch::add(CUdeviceptr target, CUdeviceptr source, size_t bytes, bool crosses) {
  if (bytes == 0) return;  // the driver takes no copy of nothing in a list
  targets_.push_back(target);
  sources_.push_back(source);
  bytes_.push_back(bytes);
  if (crosses) return;
  std::swap(targets_.back(), targets_[within_]);
  std::swap(sources_.back(), sources_[within_]);
  std::swap(bytes_.back(), bytes_[within_]);
  ++within_;
}

void CopyBatch::clear() {
  targets_.clear();
  sources_.clear();
  bytes_.clear();
  within_ = 0;
}

Status CopyBatch::submit(const Cuda& cuda, CUstream stream, bool engines_alone) {
  const bool has_call = cuda.copy_batch_130() != nullptr || cuda.copy_batch_128() != nullptr;
  const size_t least = engines_alone ? 1 : 2;
  if (size() < least || !has_call || is_legacy_stream(stream)) {
    return submit_one_by_one(cuda, stream);
  }
  const Result<bool> captured = is_captured(cuda, stream);
  if (!captured.ok()) return captured.status();
  return captured.value() ? submit_one_by_one(cuda, stream)
                          : submit_together(cuda, stream, engines_alone);
}

Status CopyBatch::submit_together(const Cuda& cuda, CUstream stream, bool engines_alone) {
  std::array<CUmemcpyAttributes, 2> attributes{};
  std::array<size_t, 2> firsts{};
  size_t kinds = 0;
  const auto add = [&](size_t first, bool overlaps) {
    attributes[kinds].srcAccessOrder = kSourceInStreamOrder;
    attributes[kinds].flags = overlaps ? kCopyOverlapsCompute : 0;
    firsts[kinds++] = first;
  };
  if (within_ > 0) add(0, engines_alone);
  if (crossing() > 0) add(within_, true);
  CUresult result = kSuccess;
  if (cuda.copy_batch_130() != nullptr) {
    result = cuda.copy_batch_130()(targets_.data(), sources_.data(), bytes_.data(), size(),
                                   attributes.data(), firsts.data(), kinds, stream);
  } else {
    size_t failed = 0;
    result = cuda.copy_batch_128()(targets_.data(), sources_.data(), bytes_.data(), size(),
                                   attributes.data(), firsts.data(), kinds, &failed, stream);
  }
  return cuda.check(result, "cuMemcpyBatchAsync");
}

Status CopyBatch::submit_one_by_one(const Cuda& cuda, CUstream stream) const {
  for (size_t i = 0; i < size(); ++i) {
    if (Status status = submit_one(cuda, stream, i); !status.ok()) return status;
  }
  return {};
}

Status CopyBatch::submit_one(const Cuda& cuda, CUstream stream, size_t number) const {
  return cuda.check(
      cuda.call.cuMemcpyAsync(targets_[number], sources_[number], bytes_[number], stream),
      "cuMemcpyAsync");
}

void MemoryOps::add(CUstreamBatchMemOpType operation, CUdeviceptr word, uint64_t value) {
  CUstreamBatchMemOpParams params{};
  params.operation = operation;
  params.address = word;
  params.value = value;
  params.flags = 0;  // waits: kWaitAtLeast; writes: behind a fence
  operations_.push_back(params);
  if (operation == kWaitValue32 || operation == kWaitValue64) ++waits_;
}

Status MemoryOps::submit(const Cuda& cuda, CUstream stream) {
  for (size_t begin = 0; begin < size(); begin += kMemoryOpsPerCall) {
    const auto count = static_cast<unsigned>(std::min(kMemoryOpsPerCall, size() - begin));
    const CUresult result =
        cuda.call.cuStreamBatchMemOp(stream, count, operations_.data() + begin, 0);
    if (result != kSuccess) return cuda.error_status(result, "cuStreamBatchMemOp");
  }
  return {};
}

}  // namespace tutti::drivers::cuda
