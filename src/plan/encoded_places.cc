#include "src/plan/encoded_places.h"

namespace tutti::plan {

using schedule::Block;
using schedule::Space;

EncodedPlaces::EncodedPlaces(const Match& match, uint64_t piece) : match_(match) {
  constexpr uint64_t kLine = 64;
  strides_.push_back(0);
  for (const codecs::Codec& codec : match.wire.codecs) {
    const uint64_t bytes = std::max<uint64_t>(bytes_of(codec, piece), 1);
    strides_.push_back((bytes + kLine - 1) / kLine * kLine);
  }
}

uint8_t EncodedPlaces::encoding_of(Block block) const {
  if (!match_.rounding.rounds()) return 0;
  const auto written = encodings_.find(block.word);
  if (written != encodings_.end()) return written->second;
  return block.space() == Space::kInput ? match_.rounding.inputs[block.index()] : uint8_t{0};
}

void EncodedPlaces::write(Block block, uint8_t encoding) {
  encodings_[block.word] = encoding;
  places_.erase(block.word);
  const auto begin = lane_places_.lower_bound({block.word, 0});
  const auto end = lane_places_.upper_bound({block.word, UINT16_MAX});
  lane_places_.erase(begin, end);
}

Operand EncodedPlaces::add(uint8_t encoding) {
  const Operand place{register_of(Base::kEncoded), Shift::kEncoded, bytes_, encoding};
  bytes_ += strides_[encoding];
  return place;
}

void EncodedPlaces::hold(Block block, const Operand& place) { places_[block.word] = place; }

void EncodedPlaces::hold_in(uint16_t lane, Block block, const Operand& place) {
  lane_places_[{block.word, lane}] = place;
}

const Operand* EncodedPlaces::find(uint16_t lane, Block block) const {
  const auto everywhere = places_.find(block.word);
  if (everywhere != places_.end()) return &everywhere->second;
  const auto here = lane_places_.find({block.word, lane});
  return here == lane_places_.end() ? nullptr : &here->second;
}

}  // namespace tutti::plan
