#include "src/engines/cuda/captured_pairs.h"

#include <algorithm>

namespace tutti::engines::cuda {

std::vector<uint32_t> CapturedPairs::first_slots(std::span<const exec::Transfer> transfers) const {
  std::vector<uint64_t> before(directions());
  for (Direction direction = 0; direction < directions(); ++direction)
    before[direction] = pieces(direction);
  std::vector<uint32_t> slots_of_all;
  const uint64_t slot_bytes = std::max<uint64_t>(slots().slot_bytes(), 1);  // 0 of a rank alone
  for (const exec::Transfer& transfer : transfers) {
    uint64_t& behind = before[direction_of(transfer.peer, transfer.is_send)];
    slots_of_all.push_back(static_cast<uint32_t>(behind % slots().slots()));
    behind += (transfer.bytes + slot_bytes - 1) / slot_bytes;
  }
  return slots_of_all;
}

void CapturedPairs::wait(Direction direction, drivers::cuda::MemoryOps& words) {
  const drivers::cuda::CUdeviceptr word = end_of(direction).other + slot_of(direction) * kWordBytes;
  words.wait_at_least_64(word, 1);
  words.write_64(word, 0);
}

void CapturedPairs::signal(Direction direction, drivers::cuda::MemoryOps& words) {
  words.write_64(end_of(direction).own + slot_of(direction) * kWordBytes, 1);
}

// The next piece in the slot waits for the same 1, and resets it.
void CapturedPairs::wait_until_taken(Direction direction, drivers::cuda::MemoryOps& words) {
  const uint64_t used = std::min(pieces(direction), slots().slots());
  for (uint64_t slot = 0; slot < used; ++slot) {
    words.wait_at_least_64(end_of(direction).other + slot * kWordBytes, 1);
  }
}

}  // namespace tutti::engines::cuda
