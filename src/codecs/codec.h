// Codecs as values: a family (a row of codecs.inc) and its numbers. tutti/codecs.h says what each
// family does to values.
//
// Ownership: none. Threads: pure functions. Errors: check() says which number to change; a decoder
// returns false for bytes that no encoder of its codec writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "src/base/status.h"

namespace tutti::codecs {

/// The numbers of a codec, in the order of its text form. A family uses the first ones.
struct CodecNumbers {
  uint32_t block = 0;
  uint32_t kept = 0;
  uint32_t bits = 0;
  bool operator==(const CodecNumbers&) const = default;
};

/// A decoder's use of a value: it replaces, is added to, or is subtracted from what is there.
enum class Sink { kStore, kAdd, kSubtract };
inline constexpr int kSinks = 3;

using EncodeKernel = void (*)(const CodecNumbers&, std::span<const float>, std::byte*);
using DecodeKernel = bool (*)(const CodecNumbers&, const std::byte*, std::span<float>);

/// Where the random numbers of stochastic rounding come from: a key, and each value's index.
struct Draws {
  uint64_t key;
  uint64_t first;  // the index of the first value, a multiple of the block
};
using StochasticKernel = void (*)(const CodecNumbers&, std::span<const float>, const Draws&,
                                  std::byte*);

/// For the processor at hand.
struct CodecKernels {
  EncodeKernel encode;
  DecodeKernel decode[kSinks];
  StochasticKernel stochastic;  // null where rounding is to nearest only
};

/// As tuttiCodecFacts_t; without a limit `accepts` is NaN.
struct CodecFacts {
  float relative;
  float of_largest;
  float least;
  float saturates;
  float accepts;
  float conserves;
};

/// Of one value of a long array in memory, by one core: for comparing ways. Those of a family were
/// measured on one machine (docs/slow_links.md); ranks measure their own (measured.h).
struct CodecTimes {
  double encode_ns;
  double decode_ns;
  bool operator==(const CodecTimes&) const = default;
};

struct CodecFamily {
  std::string_view name;
  int numbers;  // of the text form: 0, 1 (block) or 3
  CodecNumbers usual;
  Status (*check)(const CodecNumbers&);
  uint64_t (*bytes)(const CodecNumbers&, uint64_t count);
  CodecFacts (*facts)(const CodecNumbers&);
  CodecKernels (*kernels)();
  CodecTimes times;
  bool drops = false;  // values: a sum of what is kept is far from what is kept of the sum
};

/// All families, in the order of codecs.inc.
std::span<const CodecFamily> codec_families();
/// Null if there is none of this name.
const CodecFamily* find_codec(std::string_view name);

struct Codec {
  const CodecFamily* family = nullptr;
  CodecNumbers numbers;
  bool operator==(const Codec&) const = default;
};
Result<Codec> parse_codec(std::string_view text);
std::string codec_text(const Codec& codec);

/// Magnitudes up to `limit` pass, all if it is NaN. The index of the first value that does not;
/// `values.size()` if there is none.
size_t find_beyond(std::span<const float> values, float limit);

/// Error feedback, fused with encoding. The two spans have one length.
struct Feedback {
  std::span<float> error;
  std::span<const float> input;
  float beta;
};
/// The index of the first a = beta * error + input beyond what the codec conserves; as above.
size_t find_beyond(const Feedback& feedback, float limit);
void encode_feedback(const Codec& codec, const Feedback& feedback, std::byte* encoded);

// ---- parts of families ----

Status check_no_numbers(const CodecNumbers& numbers);
/// Multiples of 8, so that no code of 4 bits is cut.
Status check_block(const CodecNumbers& numbers);

/// Bytes of `count` values in blocks of a header and codes of `bits` each.
constexpr uint64_t block_bytes(uint64_t count, uint64_t block, uint64_t header, uint64_t bits) {
  const uint64_t blocks = (count + block - 1) / block;
  return blocks * header + (count * bits + 7) / 8;
}

}  // namespace tutti::codecs
