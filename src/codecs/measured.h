// The times of codecs on the machine at hand. Those of CodecFamily::times are one machine's; ranks
// measure the codecs that their messages will have when they meet, and agree on times that price
// them all alike.
//
// Threads: pure but for the clock. Units: nanoseconds a value, of one core. Errors: none.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/codecs/wire.h"

namespace tutti::codecs {

struct MeasuredCodec {
  std::string codec;  // codec_text()
  CodecTimes times;
  bool operator==(const MeasuredCodec&) const = default;
};

/// Takes a few times as long as encoding and decoding 256 Ki values, which is below a millisecond
/// for most codecs; the best of several times counts, since whatever else runs only adds.
CodecTimes measure(const Codec& codec);

/// One for each codec of the option, in its order.
std::vector<MeasuredCodec> measure(const WireOption& option);

/// A rank tells the others by a text; numbers in it are whole picoseconds, so that they are equal
/// wherever they are read. Of a text that is none: nothing.
std::string to_text(std::span<const MeasuredCodec> measured);
std::vector<MeasuredCodec> read_measured(std::string_view text);

/// Of each codec that all ranks measured the median of the ranks' times; `of_ranks` by rank.
std::vector<MeasuredCodec> agree(std::span<const std::vector<MeasuredCodec>> of_ranks);

/// The measured times of the codec, or else the family's.
CodecTimes times_of(const Codec& codec, std::span<const MeasuredCodec> measured);

}  // namespace tutti::codecs
