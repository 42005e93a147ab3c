// Integers on the wire and in files: little endian, whatever the machine.
//
// Units: widths in bytes, at most 8. Errors: none; the caller knows that the bytes are there.
// Threads: no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

inline void put_little(uint8_t* at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) at[i] = static_cast<uint8_t>(value >> (8 * i));
}

inline uint64_t get_little(const uint8_t* at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= uint64_t{at[i]} << (8 * i);
  return value;
}

}  // namespace tutti
