// Where the encoded bytes of a rank's values lie: while its steps are translated, in order.
//
// Every encoded value of a slice has a place of its own, so nothing is ever overwritten in a slice,
// and a lane may send what another one has encoded or received. A lane encodes by itself, when it
// first needs them, an input and elements that came by an exact level; these bytes no other lane
// uses, since nothing orders the two.
//
// Threads: one. Errors: none.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "src/plan/match.h"
#include "src/plan/plan.h"

namespace tutti::plan {

class EncodedPlaces {
 public:
  /// `piece`: elements of the longest piece of a block in a slice of the plan.
  EncodedPlaces(const Match& match, uint64_t piece);

  /// The encoding of what the block holds at this point; 0: it is not rounded.
  uint8_t encoding_of(schedule::Block block) const;
  /// The block is written by a move, which leaves a value of this encoding.
  void write(schedule::Block block, uint8_t encoding);

  /// A new place.
  Operand add(uint8_t encoding);
  /// The value that the block holds is there, for all that follows.
  void hold(schedule::Block block, const Operand& place);
  /// Only for what follows in this lane.
  void hold_in(uint16_t lane, schedule::Block block, const Operand& place);
  /// Null where this lane has no encoded bytes of what the block holds.
  const Operand* find(uint16_t lane, schedule::Block block) const;

  /// Bytes of all places.
  uint64_t bytes() const { return bytes_; }

 private:
  const Match& match_;
  std::vector<uint64_t> strides_;          // by encoding
  std::map<uint32_t, uint8_t> encodings_;  // by block that was written
  std::map<uint32_t, Operand> places_;     // by block
  std::map<std::pair<uint32_t, uint16_t>, Operand> lane_places_;
  uint64_t bytes_ = 0;
};

}  // namespace tutti::plan
