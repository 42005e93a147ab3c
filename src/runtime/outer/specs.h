// Checks of numbers that several outer optimizers take, and fingerprints of floats.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

#include "src/runtime/fingerprint.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {

inline void check_rate(float rate, std::string_view name) {
  require(rate > 0 && rate - rate == 0, name, " is ", rate, "; give a finite number above 0");
}

inline void check_momentum(float momentum, std::string_view name) {
  require(momentum >= 0 && momentum < 1, name, " is ", momentum,
          "; give 0 or more, and less than 1");
}

inline void add_bits(Fingerprint& print, float number) {
  print.add(std::bit_cast<int32_t>(number));
}
inline void add_bits(Fingerprint& print, std::span<const float> numbers) {
  print.add(std::ssize(numbers));
  for (const float number : numbers) add_bits(print, number);
}

}  // namespace tutti::runtime
