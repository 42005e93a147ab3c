// Numbers of some bits each, one behind the other, the lowest bit first.
//
// Ownership: none of the bytes. Threads: values. Errors: none; the caller sees to it that there
// are as many bytes as the numbers take.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tutti::codecs {

/// Of an index into a tile.
constexpr uint32_t index_bits_of(uint32_t tile) {
  return static_cast<uint32_t>(std::bit_width(tile - 1));
}

/// Of `count` numbers.
constexpr size_t row_bytes(size_t count, size_t bits) { return (count * bits + 7) / 8; }

class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : out_(out) {}

  /// At most 32 bits.
  void put(uint32_t number, uint32_t bits) {
    held_ |= uint64_t{number} << count_;
    for (count_ += bits; count_ >= 8; count_ -= 8, held_ >>= 8) {
      *out_++ = static_cast<std::byte>(held_);
    }
  }
  void finish() {
    if (count_ > 0) *out_ = static_cast<std::byte>(held_);
  }

 private:
  std::byte* out_;
  uint64_t held_ = 0;
  uint32_t count_ = 0;
};

class BitReader {
 public:
  explicit BitReader(const std::byte* in) : in_(in) {}

  uint32_t take(uint32_t bits) {
    for (; count_ < bits; count_ += 8) held_ |= uint64_t{static_cast<uint8_t>(*in_++)} << count_;
    const auto number = static_cast<uint32_t>(held_ & ((uint64_t{1} << bits) - 1));
    held_ >>= bits;
    count_ -= bits;
    return number;
  }

 private:
  const std::byte* in_;
  uint64_t held_ = 0;
  uint32_t count_ = 0;
};

}  // namespace tutti::codecs
