// The words by which a rank's host and its kernels that wait (src/engines/cuda/fused_thread.h) know
// of each other, in memory of the host that the device reaches.
//
// Owns: nothing. Threads: any. Errors: none.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "src/exec/arena_map.h"

namespace tutti::engines::streams {

struct FusedWords {
  static constexpr uint32_t kBlocks = 8;   // of every kernel
  static constexpr uint32_t kRecent = 16;  // calls, of which it is known what they are

  // By the host: not 0, and kernels that wait end.
  alignas(exec::kLineBytes) std::atomic<uint64_t> stop;
  // By block: number of the call << 32 | peer + 1, for which a thread waits, or waited in a call
  // that the block is not past. 0 while it waits for nobody for long.
  alignas(exec::kLineBytes) std::atomic<uint64_t> waiting[kBlocks];
  std::atomic<uint64_t> expired;  // the same of a call that passed its deadline
  // By block: the place (StreamWatch) of the last eager call that it is past.
  alignas(exec::kLineBytes) std::atomic<uint64_t> finished[kBlocks];
  // Of the last calls that the rank's kernels have begun: number << 32 | signature, of call n at
  // n % kRecent. Numbers are equal on all ranks.
  alignas(exec::kLineBytes) std::atomic<uint64_t> begun[kRecent];

  uint64_t last_finished() const {
    uint64_t least = ~uint64_t{0};
    for (const std::atomic<uint64_t>& one : finished) {
      least = std::min(least, one.load(std::memory_order_acquire));
    }
    return least;
  }
  /// A peer that some block waits for, of so many ranks.
  std::optional<int> find_late(size_t ranks) const {
    for (const std::atomic<uint64_t>& one : waiting) {
      const std::optional<int> peer = peer_in(one.load(std::memory_order_acquire), ranks);
      if (peer) return peer;
    }
    return std::nullopt;
  }
  /// The signature of the call with this number, if the rank's kernel has begun it.
  std::optional<uint32_t> signature_of(uint32_t number) const {
    const uint64_t word = begun[number % kRecent].load(std::memory_order_acquire);
    if (word >> 32 != number) return std::nullopt;
    return static_cast<uint32_t>(word);
  }
  /// Numbers begin anew. No kernel runs.
  void forget_begun() {
    for (std::atomic<uint64_t>& one : begun) one.store(0, std::memory_order_release);
  }
  /// The peer that such a word names, of so many ranks.
  static std::optional<int> peer_in(uint64_t word, size_t ranks) {
    const uint64_t peer = word & ~uint32_t{0};
    if (peer == 0 || peer > ranks) return std::nullopt;
    return static_cast<int>(peer - 1);
  }
};

}  // namespace tutti::engines::streams
