// Each parser of bytes from a peer, a file or the environment, as a function that takes any bytes.
//
// A target calls the parser and requires what must hold whatever comes: no access out of bounds
// (the sanitizers look), no value that says something else than its bytes, no secret in a message.
// The driver (fuzz_main.cc) and libFuzzer (entry.cc) run the same targets.
//
// Errors:  require() ends the process.
// Threads: one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::fuzz {

using Bytes = std::span<const uint8_t>;

struct Target {
  std::string_view name;
  /// True if the parser accepted the bytes: the driver counts, so that a target whose inputs all
  /// die at the first check is noticed.
  bool (*run)(Bytes input);
  /// Valid inputs, and inputs that were once mistaken.
  std::vector<std::string> (*corpus)();
  size_t max_bytes;
};

std::span<const Target> targets();

void require(bool holds, const char* what);

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace tutti::fuzz
