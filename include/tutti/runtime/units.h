// Whole numbers with a unit, so that a time is not added to a size by mistake.
//
// Units:  Nanoseconds and Bytes are signed 64-bit integers, so that equal inputs give equal plans
//         on every rank. Elements, tokens and units of work are plain int64_t.
// Errors: sums are not checked; the planners check the products that can overflow.
#pragma once

#include <compare>
#include <cstdint>

namespace tutti::runtime {

template <class Unit>
struct Quantity {
  int64_t value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(int64_t count) : value(count) {}

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) { return value += other.value, *this; }
  constexpr Quantity& operator-=(Quantity other) { return value -= other.value, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, int64_t times) {
    return Quantity(a.value * times);
  }
  friend constexpr Quantity operator/(Quantity a, int64_t parts) {
    return Quantity(a.value / parts);
  }
};

using Nanoseconds = Quantity<struct NanosecondsUnit>;
using Bytes = Quantity<struct BytesUnit>;

constexpr double milliseconds(Nanoseconds time) { return static_cast<double>(time.value) / 1e6; }

}  // namespace tutti::runtime
