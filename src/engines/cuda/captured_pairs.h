// Sends and receives in a CUDA graph (pair_streams.h has the steps), by words that hold what a
// graph may hold, which is constants.
//
// Each slot of an ordered pair has two words. `full` is 1 where a piece lies in the slot that the
// receiver has not begun to take, `empty` where the slot is free; both are 0 in between. The end
// that waits for a 1 resets it, and then signals by the other word:
//
//   sender    until empty >= 1; empty := 0; ... copies a piece into the slot ...; full := 1
//   receiver  until full >= 1; full := 0; ... copies the piece out ...; empty := 1
//
// So between two writes of 1 there is the 0 of the waiter, which it writes before it says what lets
// the other end write again; and the words of a pair need no other rank. Both ends go through the
// same slots in the same order: each graph begins with the first one, whatever lay there last.
// captured_pairs_test.cc looks at every order of the steps of several ranks and runs.
//
// The words lie with the rank whose streams wait for them (captured_memory.h), so a rank that has
// failed lets its own streams go on, and nobody else's.
//
// Threads, contexts, errors: as PairStreams.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/engines/cuda/pair_streams.h"
#include "src/engines/streams/captured_words.h"

namespace tutti::engines::cuda {

/// The pairs of one capture. Of their addresses, `own` and `other` are the first of kCapturedSlots
/// words that are kWordBytes apart.
class CapturedPairs final : public PairStreams {
 public:
  static constexpr uint64_t kWordBytes = exec::kLineBytes;
  using PairStreams::PairStreams;

  /// The slots of the first pieces of the transfers, if they are put next.
  std::vector<uint32_t> first_slots(std::span<const exec::Transfer> transfers) const;

 private:
  void wait(Direction direction, drivers::cuda::MemoryOps& words) override;
  void signal(Direction direction, drivers::cuda::MemoryOps& words) override;
  void wait_until_taken(Direction direction, drivers::cuda::MemoryOps& words) override;
};

}  // namespace tutti::engines::cuda
