// Random numbers that belong to a sample and not to a rank: wherever it is computed, and by however
// many ranks, it draws the same ones (dropout masks, for example).
//
// The generator is Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
// 2011): a counter goes in, numbers come out, and there is no state to hand over when ranks change.
// The key is a hash of seed and step; the counter has sample, layer and the place in the stream.
//
// Errors:  throws Error for negative numbers, and behind the 2^34th number of a stream.
// Threads: one object belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tutti/runtime/error.h"

namespace tutti::runtime {

/// The block of four numbers for a counter and a key.
TUTTI_RUNTIME_API std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                                     std::array<uint32_t, 2> key);

class TUTTI_RUNTIME_API RandomStream {
 public:
  /// `sample` is a number over all ranks, of a sample or of a micro-batch; layer: 0 to 2^32 - 1.
  RandomStream(uint64_t seed, int64_t step, int64_t sample, int64_t layer);

  uint32_t next();
  /// 0 <= result < 1, a multiple of 2^-24.
  float uniform() { return static_cast<float>(next() >> 8) * 0x1.0p-24f; }
  /// The keep mask of a dropout: 0 with this probability, else 1 / (1 - probability).
  void dropout_mask(float probability, std::span<float> mask);

 private:
  std::array<uint32_t, 2> key_{};
  std::array<uint32_t, 4> counter_{};
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
  bool is_over_ = false;
};

}  // namespace tutti::runtime
