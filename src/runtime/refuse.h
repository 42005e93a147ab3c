// How the runtime's functions refuse input: require(condition, parts of the sentence...).
#pragma once

#include <array>
#include <charconv>
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
/// As few digits as tell it from its neighbours, and a point whatever the program's locale.
inline void append_word(std::string& sentence, double number) {
  std::array<char, 32> text{};  // "-2.2250738585072014e-308"
  sentence.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr);
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

/// Throws what the library below says about a call that failed.
inline void expect_success(tuttiResult_t result, tuttiComm_t comm, std::string_view call) {
  if (result == tuttiSuccess) return;
  const char* why = tuttiGetLastError(comm);
  if (why == nullptr || *why == '\0') why = tuttiGetErrorString(result);
  throw Error(ErrorKind::kCommunication, words(call, " failed: ", std::string_view(why)), result);
}

}  // namespace tutti::runtime
