// The loads and stores of a kernel that waits (src/engines/cuda/fused_thread.h) as a host makes
// them, each of which may hold the thread up: `Pause` is called before every one. Each half of a
// line is one access, as on a device, and a thread may be held up between the two.
//
// Threads: as its Pause. Errors: none.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/engines/cuda/fused_thread.h"

namespace tutti::testing_support {

/// Ways to be wrong, for tests that must find them.
struct SoundLines {
  static constexpr bool number_first = false;  // it is stored before the four bytes beside it
  static constexpr bool looks_once = false;    // the bytes are loaded before the number
};

template <class Pause, class Faults = SoundLines>
class SteppedLines {
 public:
  explicit SteppedLines(Pause& pause) : pause_(pause) {}

  engines::cuda::FusedLine load_line(uint64_t address) {
    engines::cuda::FusedLine line;
    for (uint32_t i = 0; i < 2; ++i) line.half[i] = load_half(address + i * sizeof(uint64_t));
    return line;
  }
  void store_line(uint64_t address, const engines::cuda::FusedLine& line) {
    for (uint32_t i = 0; i < 2; ++i) store_half(address + i * sizeof(uint64_t), line.half[i]);
  }
  uint64_t load_word(uint64_t address) {
    pause_.before_access();
    return word(address).load(std::memory_order_acquire);
  }
  void store_word(uint64_t address, uint64_t value) {
    pause_.before_access();
    word(address).store(value, std::memory_order_release);
  }
  uint64_t now_ns() { return pause_.now_ns(); }
  void missed() { pause_.missed(); }

 private:
  static std::atomic_ref<uint64_t> word(uint64_t address) {
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(address));
  }

  uint64_t load_half(uint64_t address) {
    constexpr uint64_t kBytes = ~uint32_t{0};
    pause_.before_access();
    const uint64_t first = word(address).load(std::memory_order_relaxed);
    if constexpr (!Faults::looks_once) return first;
    pause_.before_access();
    const uint64_t second = word(address).load(std::memory_order_relaxed);
    return (first & kBytes) | (second & ~kBytes);
  }

  void store_half(uint64_t address, uint64_t value) {
    constexpr uint64_t kBytes = ~uint32_t{0};
    pause_.before_access();
    if constexpr (Faults::number_first) {
      const uint64_t old = word(address).load(std::memory_order_relaxed);
      word(address).store((old & kBytes) | (value & ~kBytes), std::memory_order_relaxed);
      pause_.before_access();
    }
    word(address).store(value, std::memory_order_relaxed);
  }

  Pause& pause_;
};

}  // namespace tutti::testing_support
