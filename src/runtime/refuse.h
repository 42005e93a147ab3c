// How the runtime's functions refuse input: require(condition, parts of the sentence...).
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "tutti/runtime/error.h"

namespace tutti::runtime {

inline void append_word(std::string& sentence, std::string_view word) { sentence += word; }
template <class Number>
requires std::is_integral_v<Number>
void append_word(std::string& sentence, Number number) { sentence += std::to_string(number); }
/// As std::to_string writes it, but with a point whatever the program's locale.
inline void append_word(std::string& sentence, double number) {
  constexpr int kDigits = 6;
  std::array<char, 400> text{};  // the largest double has 309 digits before the point
  sentence.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), number,
                                             std::chars_format::fixed, kDigits)
                                   .ptr);
}

template <class... Parts>
std::string words(const Parts&... parts) {
  std::string sentence;
  (append_word(sentence, parts), ...);
  return sentence;
}

/// The sentence is made only where it is needed.
template <class... Parts>
void require(bool holds, const Parts&... parts) {
  if (!holds) throw Error(ErrorKind::kInvalidInput, words(parts...));
}

template <class... Parts>
[[noreturn]] void infeasible(const Parts&... parts) {
  throw Error(ErrorKind::kInfeasible, words(parts...), tuttiInvalidArgument);
}

/// a * b for counts that are not negative; `what` names the product in the error.
inline int64_t checked_product(int64_t a, int64_t b, std::string_view what) {
  int64_t product = 0;
  require(a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, &product), what, " is ", a, " * ", b,
          ", which is negative or beyond 2^63 - 1; use smaller counts");
  return product;
}

/// a + b for counts that are not negative.
inline int64_t checked_sum(int64_t a, int64_t b, std::string_view what) {
  int64_t sum = 0;
  require(a >= 0 && b >= 0 && !__builtin_add_overflow(a, b, &sum), what, " is ", a, " + ", b,
          ", which is negative or beyond 2^63 - 1; use smaller counts");
  return sum;
}

/// A number that was computed as a double, rounded to a whole one.
inline int64_t checked_round(double value, std::string_view what) {
  // 2^63 is the first double that is too large; a NaN is not less than anything.
  require(value > -0x1p63 && value < 0x1p63, what, " is ", value,
          ", which is not finite or beyond 2^63 - 1; use smaller numbers");
  return static_cast<int64_t>(std::llround(value));
}

/// The most ranks of a plan, and the most entries of a list that a plan is made of: beyond them an
/// input is a slip, and the plan would fill the memory before anybody saw it.
inline constexpr int64_t kMostRanks = int64_t{1} << 20;
inline constexpr int64_t kMostParts = int64_t{1} << 24;

inline void check_ranks(int64_t ranks) {
  require(ranks >= 1 && ranks <= kMostRanks, ranks, " ranks; give 1 or more, at most 2^20");
}
/// For a number of parts that is not negative; `what` names them in the plural.
inline void check_parts(int64_t parts, std::string_view what) {
  require(parts <= kMostParts, parts, " ", what, " are beyond 2^24; plan a smaller problem");
}

/// Throws what the library below says about a call of this thread that failed just now. The thread
/// has the sentence of every call; a communicator has none of groups and requests, which are not
/// its own.
inline void expect_success(tuttiResult_t result, tuttiComm_t comm, std::string_view call) {
  if (result == tuttiSuccess) return;
  const char* why = tuttiGetLastError(nullptr);
  if (why == nullptr || *why == '\0') why = tuttiGetLastError(comm);
  if (why == nullptr || *why == '\0') why = tuttiGetErrorString(result);
  throw Error(ErrorKind::kCommunication, words(call, " failed: ", std::string_view(why)), result);
}
inline void expect_success(tuttiResult_t result, std::string_view call) {
  expect_success(result, nullptr, call);
}

}  // namespace tutti::runtime
