// Entry points of streams: what is put into them, and what is known of them.
#include <memory>
#include <utility>
#include <vector>

#include "tests/software_device/device/copies.h"
#include "tests/software_device/device/device.h"
#include "tests/software_device/device/entry_points.h"
#include "tests/software_device/device/memory_operations.h"
#include "tests/software_device/device/statistics.h"

namespace softdev {
namespace {

CUresult copy_and_wait(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  return in_context_outside_captures([&](Context& context) {
    const CUresult result = submit_copies(*context.legacy, {{target, source, bytes}});
    return result != kSuccess ? result : drain(*context.legacy);
  });
}

CUresult one_operation(CUstream stream, const MemoryOperation& operation) {
  return in_context(
      [&](Context& context) { return submit_memory_operations(context, stream, {operation}); });
}

}  // namespace

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  return in_context_outside_captures([&](Context& context) {
    if ((flags & ~kStreamNonBlocking) != 0) return kErrorInvalidValue;
    const std::lock_guard lock(context.mutex);
    *out = reinterpret_cast<CUstream>(context.make_stream(flags, priority));
    count(&SoftdevStatistics::live_streams, 1);
    return kSuccess;
  });
}

CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}

/// The work that it holds still runs, and its handle may be the next stream's.
CUresult cuStreamDestroy(CUstream handle) {
  return on_stream(handle, [&](Stream& stream) {
    if (is_legacy(handle) || reinterpret_cast<uintptr_t>(handle) == kStreamPerThread) {
      return kErrorInvalidHandle;
    }
    stream.context->destroy_stream(stream);
    count(&SoftdevStatistics::live_streams, -1);
    return kSuccess;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return on_stream(handle, [](Stream& stream) { return drain(stream); });
}

CUresult cuStreamQuery(CUstream handle) {
  return on_stream(handle, [](Stream& stream) { return query(stream); });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
  return on_stream(handle, [&](Stream& stream) {
    *out = reinterpret_cast<CUcontext>(stream.context);
    return kSuccess;
  });
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* out) {
  return on_stream(handle, [&](Stream& stream) {
    *out = stream.id;
    return kSuccess;
  });
}

CUresult cuStreamGetPriority(CUstream handle, int* out) {
  return on_stream(handle, [&](Stream& stream) {
    *out = stream.priority;
    return kSuccess;
  });
}

CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream handle) {
  return on_stream(handle, [&](Stream& stream) {
    return submit_copies(stream, {{target, source, bytes}});
  });
}

CUresult cuMemcpyHtoD(CUdeviceptr target, const void* source, size_t bytes) {
  return copy_and_wait(target, reinterpret_cast<CUdeviceptr>(source), bytes);
}

CUresult cuMemcpyDtoH(void* target, CUdeviceptr source, size_t bytes) {
  return copy_and_wait(reinterpret_cast<CUdeviceptr>(target), source, bytes);
}

CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t bytes, CUstream handle) {
  return on_stream(handle,
                   [&](Stream& stream) { return submit_fill(stream, target, value, bytes); });
}

CUresult cuMemsetD8(CUdeviceptr target, unsigned char value, size_t bytes) {
  return in_context_outside_captures([&](Context& context) {
    const CUresult result = submit_fill(*context.legacy, target, value, bytes);
    return result != kSuccess ? result : drain(*context.legacy);
  });
}

extern "C" {

CUresult softdev_copy_batch_130(CUdeviceptr* targets, CUdeviceptr* sources, size_t* bytes,
                                size_t how_many, CUmemcpyAttributes* attributes, size_t* firsts,
                                size_t attributes_given, CUstream handle) {
  return on_stream(handle, [&](Stream& stream) {
    if (is_legacy(handle)) return kErrorInvalidValue;
    if (is_captured(stream)) return kErrorStreamCaptureUnsupported;
    if (how_many == 0 || attributes_given == 0 || attributes_given > how_many || firsts[0] != 0) {
      return kErrorInvalidValue;
    }
    std::vector<Copy> copies;
    size_t which = 0, overlapping = 0;
    for (size_t i = 0; i < how_many; ++i) {
      const bool more = which + 1 < attributes_given;
      if (more && firsts[which + 1] <= firsts[which]) return kErrorInvalidValue;
      if (more && firsts[which + 1] == i) ++which;
      const CUmemcpyAttributes& given = attributes[which];
      if (given.srcAccessOrder < kSourceInStreamOrder || given.srcAccessOrder > kSourceAnyTime ||
          given.flags > kCopyOverlapsCompute || bytes[i] == 0) {
        return kErrorInvalidValue;
      }
      copies.push_back({targets[i], sources[i], bytes[i], given.srcAccessOrder});
      overlapping += given.flags & kCopyOverlapsCompute;
    }
    count(&SoftdevStatistics::batches, 1);
    count(&SoftdevStatistics::overlapping_copies, overlapping);
    return submit_copies(stream, std::move(copies));
  });
}

CUresult softdev_copy_batch_128(CUdeviceptr* targets, CUdeviceptr* sources, size_t* bytes,
                                size_t how_many, CUmemcpyAttributes* attributes, size_t* firsts,
                                size_t attributes_given, size_t* failed, CUstream stream) {
  if (failed != nullptr) *failed = SIZE_MAX;
  return softdev_copy_batch_130(targets, sources, bytes, how_many, attributes, firsts,
                                attributes_given, stream);
}

}  // extern "C"

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr word, uint32_t value, unsigned flags) {
  return one_operation(stream, {kWaitValue32, word, value, flags});
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr word, uint64_t value, unsigned flags) {
  return one_operation(stream, {kWaitValue64, word, value, flags});
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr word, uint32_t value, unsigned flags) {
  return one_operation(stream, {kWriteValue32, word, value, flags});
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr word, uint64_t value, unsigned flags) {
  return one_operation(stream, {kWriteValue64, word, value, flags});
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned how_many, CUstreamBatchMemOpParams* given,
                            unsigned flags) {
  return in_context([&](Context& context) {
    if (flags != 0 || how_many == 0 || how_many > kMemoryOpsPerCall) return kErrorInvalidValue;
    std::vector<MemoryOperation> operations;
    for (unsigned i = 0; i < how_many; ++i) {
      if (given[i].operation < kWaitValue32 || given[i].operation > kMemoryBarrier) {
        return kErrorInvalidValue;
      }
      operations.push_back({given[i].operation, given[i].address, given[i].value, given[i].flags});
    }
    return submit_memory_operations(context, stream, std::move(operations));
  });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  return on_stream(handle, [&](Stream& stream) {
    count(&SoftdevStatistics::host_functions, 1);
    return submit(stream, once([function, data] { run_host_function(function, data); }));
  });
}

}  // namespace softdev
