// The encodings of messages. Memory has an element type; a message, and every operand of a plan,
// has an encoding: 0, as memory has it, or the number of one of the codecs of LevelEncodings,
// from 1.
//
// Threads: values. Units: bytes; counts are elements. Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/codecs/wire.h"
#include "src/group/view.h"
#include "src/types/types.h"

namespace tutti::plan {

struct LevelEncodings {
  std::vector<codecs::Codec> codecs;
  std::vector<uint8_t> levels;  // by level of the group: the encoding of its messages

  /// Whether any message may be encoded.
  bool encodes() const { return !codecs.empty(); }
  bool operator==(const LevelEncodings&) const = default;
};

/// Levels that map memory have no messages to encode; entries for levels that the group lacks say
/// nothing.
LevelEncodings wire_of(const codecs::WireOption& option, const group::GroupView& group);

/// The codec whose bytes are those of the type's elements: a fold with encoded operands decodes
/// the others by it. None: what has such elements is never encoded.
std::optional<codecs::Codec> codec_of(types::DataType type);

/// Elements that share bytes of an encoding: pieces of a message end at multiples of it.
inline uint64_t block_of(const codecs::Codec& codec) {
  return codec.numbers.block == 0 ? 1 : codec.numbers.block;
}
inline uint64_t bytes_of(const codecs::Codec& codec, uint64_t elements) {
  return elements == 0 ? 0 : codec.family->bytes(codec.numbers, elements);
}

}  // namespace tutti::plan
