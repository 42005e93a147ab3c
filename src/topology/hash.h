// A number that tells texts apart where nobody means to deceive (FNV-1a of 64 bits).
//
// Threads: pure. Errors: none.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti::topology {

constexpr uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace tutti::topology
