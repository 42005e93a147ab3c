// Pseudo-random numbers that are the same on every machine for the same seed (xoshiro256**, seeded
// by splitmix64). For tests and for telling things apart; secrets come from libsodium.
//
// Threads: one generator belongs to one thread.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace tutti {

/// Turns any number into a well mixed one; advances `state`.
inline uint64_t splitmix64(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// Satisfies UniformRandomBitGenerator.
class Prng {
 public:
  using result_type = uint64_t;

  explicit Prng(uint64_t seed) {
    for (uint64_t& word : state_) word = splitmix64(seed);
  }

  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return std::numeric_limits<uint64_t>::max(); }

  uint64_t operator()() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// 0 <= result < bound, evenly (Lemire: multiply, refuse the uneven rest). `bound` is above 0.
  uint64_t below(uint64_t bound) {
    const uint64_t refused = (0 - bound) % bound;
    for (;;) {
      const auto product = static_cast<Wide>((*this)()) * bound;
      if (static_cast<uint64_t>(product) >= refused) return static_cast<uint64_t>(product >> 64);
    }
  }

  /// 0 <= result < 1.
  double unit() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

 private:
  __extension__ using Wide = unsigned __int128;

  uint64_t state_[4];
};

}  // namespace tutti
