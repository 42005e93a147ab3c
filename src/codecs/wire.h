// Which levels of a group encode their messages: a value with a text form, as in TUTTI_WIRE.
//
//     network:int8_block,region:e3m0
//     always,network:bf16
//
// An entry is a level's name, a colon, and a codec. "always" leaves no choice to selection, which
// otherwise encodes only where that is predicted to take less time.
//
// Threads: values. Errors: parse_wire() says which entry is wrong, and what would be right.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/codecs/codec.h"

namespace tutti::codecs {

struct LevelCodec {
  std::string level;
  Codec codec;
  bool operator==(const LevelCodec&) const = default;
};

struct WireOption {
  std::vector<LevelCodec> levels;
  bool always = false;
  bool operator==(const WireOption&) const = default;
};

/// "" names no level. Of two codecs the longer block is a multiple of the shorter one, and no block
/// is longer than 65536, since a message is cut at multiples of all of them.
Result<WireOption> parse_wire(std::string_view text);
/// With all numbers of the codecs: options that are equal have equal texts.
std::string wire_text(const WireOption& option);

}  // namespace tutti::codecs
