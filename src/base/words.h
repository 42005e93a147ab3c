// Text from a peer, a file or the environment, cut into words and read as numbers: strictly.
//
// Errors: nullopt for anything but a complete number in range. Threads: no state.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// Pieces between separators; empty pieces are kept, so "a,,b" has three.
std::vector<std::string_view> split(std::string_view text, char separator);

/// Without white space around it.
std::string_view trim(std::string_view text);

/// The whole text as one integer: no sign for unsigned types, no space, no '0x', nothing left over.
template <class Integer>
std::optional<Integer> parse_integer(std::string_view text, int base = 10) {
  Integer value{};
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value, base);
  if (text.empty() || error != std::errc() || next != end) return std::nullopt;
  return value;
}

std::string to_hex(std::string_view bytes);
/// The bytes behind an even number of hexadecimal digits.
std::optional<std::string> from_hex(std::string_view text);

/// The one of `known` that is the fewest letters away; empty where there is none.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& known);

/// "2, 5-7"; at most a few, then "and 12 more".
std::string list_ranks(const std::vector<int>& ascending);

}  // namespace tutti
