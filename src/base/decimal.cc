#include "src/base/decimal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace tutti {

std::optional<double> parse_decimal(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || next != end || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::string fixed_digits(double value, int digits) {
  std::array<char, 400> text{};  // the largest double has 309 digits before the point
  constexpr int kMost = 64;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value,
                                          std::chars_format::fixed, std::min(digits, kMost));
  return error == std::errc() ? std::string(text.data(), end) : "?";
}

std::string three_digits(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value) || size == 0) return fixed_digits(value, 0);
  const int before = static_cast<int>(std::floor(std::log10(size))) + 1;  // -1: "0.0123"
  constexpr int kDigits = 3;
  return fixed_digits(value, std::max(kDigits - before, 0));
}

}  // namespace tutti
