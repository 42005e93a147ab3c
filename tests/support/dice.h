// Chance for tests: the same numbers for the same seed on every machine.
//
// Not the library's generator, so that a change there changes no test. Threads: one.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace tutti::testing_support {

/// A well mixed word made of two.
inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}

  uint64_t next() { return mix(seed_, ++drawn_); }
  /// 0 <= result < bound; slightly uneven, which tests do not mind.
  uint64_t below(uint64_t bound) { return next() % bound; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  /// 1 <= result <= greatest, every power of two equally likely.
  uint64_t log_uniform(uint64_t greatest) {
    const double exponent = unit() * std::log2(static_cast<double>(greatest) + 1);
    const auto value = static_cast<uint64_t>(std::exp2(exponent));
    return value < 1 ? 1 : value > greatest ? greatest : value;
  }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  uint64_t seed_;
  uint64_t drawn_ = 0;
};

}  // namespace tutti::testing_support
