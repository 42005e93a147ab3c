#include "tests/software_device/device/memory_operations.h"

#include <memory>
#include <utility>

#include "tests/software_device/device/chance.h"
#include "tests/software_device/device/statistics.h"

namespace softdev {
namespace {

bool is_write(CUstreamBatchMemOpType type) {
  return type == kWriteValue32 || type == kWriteValue64;
}
bool is_wide(CUstreamBatchMemOpType type) { return type == kWaitValue64 || type == kWriteValue64; }
bool is_fence(CUstreamBatchMemOpType type) {
  return type == kMemoryBarrier || type == kFlushRemoteWrites;
}

/// Whether the word is what the wait waits for.
template <class Unsigned, class Signed>
bool ends(Unsigned word, Unsigned value, unsigned flags) {
  switch (flags & 3) {
    case kWaitAtLeast:
      return static_cast<Signed>(word - value) >= 0;
    case kWaitEqual:
      return word == value;
    case kWaitAnd:
      return (word & value) != 0;
    default:
      return static_cast<Unsigned>(~(word | value)) != 0;
  }
}

void write(const MemoryOperation& operation, const Segment& word) {
  skew();
  if (const Agent* agent = running_agent()) publish(word.place, agent->clock());
  if (is_wide(operation.type)) {
    __atomic_store_n(reinterpret_cast<uint64_t*>(word.data), operation.value, __ATOMIC_SEQ_CST);
  } else {
    __atomic_store_n(reinterpret_cast<uint32_t*>(word.data), static_cast<uint32_t>(operation.value),
                     __ATOMIC_SEQ_CST);
  }
  count(&SoftdevStatistics::writes, 1);
}

bool wait_ended(const MemoryOperation& operation, const Segment& word) {
  const bool ended =
      is_wide(operation.type)
          ? ends<uint64_t, int64_t>(
                __atomic_load_n(reinterpret_cast<uint64_t*>(word.data), __ATOMIC_ACQUIRE),
                operation.value, operation.flags)
          : ends<uint32_t, int32_t>(
                __atomic_load_n(reinterpret_cast<uint32_t*>(word.data), __ATOMIC_ACQUIRE),
                static_cast<uint32_t>(operation.value), operation.flags);
  if (!ended) return false;
  if (Agent* agent = running_agent()) agent->learn(published(word.place));
  count(&SoftdevStatistics::waits, 1);
  return true;
}

/// False: not yet.
bool run(const MemoryOperation& operation, int device) {
  if (is_fence(operation.type)) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return true;
  }
  const size_t bytes = is_wide(operation.type) ? 8 : 4;
  const Range range = addresses().locate(operation.address, bytes, device);
  if (!range.valid) {
    fail_operation("operation on a word", operation.address, bytes);
    return true;
  }
  if (!is_write(operation.type)) return wait_ended(operation, range.segments[0]);
  write(operation, range.segments[0]);
  return true;
}

bool is_valid(const MemoryOperation& operation, int device) {
  if (is_fence(operation.type)) return true;
  const size_t bytes = is_wide(operation.type) ? 8 : 4;
  if (operation.address % bytes != 0) return false;
  const Range range = addresses().locate(operation.address, bytes, device);
  // A write without its fence is not in this version of the interface.
  return range.valid && !range.pageable && !(is_write(operation.type) && operation.flags != 0);
}

}  // namespace

CUresult submit_memory_operations(Context& context, CUstream handle,
                                  std::vector<MemoryOperation> operations) {
  Stream* stream = context.resolve(handle);
  if (stream == nullptr) return kErrorInvalidHandle;
  const int device = context.device;
  for (const MemoryOperation& operation : operations) {
    if (!is_valid(operation, device)) return kErrorInvalidValue;
  }
  count(&SoftdevStatistics::memory_operations, static_cast<int64_t>(operations.size()));
  const auto shared = std::make_shared<const std::vector<MemoryOperation>>(std::move(operations));
  return submit(*stream, [shared, device]() -> Step {
    const auto next = std::make_shared<size_t>(0);
    return [shared, device, next] {
      for (; *next < shared->size(); ++*next) {
        if (!run((*shared)[*next], device)) return false;
      }
      return true;
    };
  });
}

}  // namespace softdev
