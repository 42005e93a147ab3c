// Ranks in a circle, and what one lane of a ring or circulant pattern sees of them.
//
// Every rank owns one share of the data. With L lanes each share is cut into L parts, and lane k
// moves part k of all shares. Odd lanes walk backwards: both directions of every link carry data.
#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::patterns {

struct Ring {
  int ranks = 1;
  uint16_t lane = 0;
  uint16_t lanes = 1;

  static Ring of(const schedule::Parameters& p, uint16_t lane) { return {p.ranks, lane, p.lanes}; }

  /// The rank `hops` (less than a whole round, either sign) further in this lane's direction.
  int at(int rank, int hops) const {
    const int forward = lane % 2 == 0 ? hops : -hops;
    return (rank + forward + ranks) % ranks;
  }

  /// This lane's part of the share of `rank`, as a block index of the buffer of all shares.
  uint32_t part(int rank) const { return static_cast<uint32_t>(rank) * lanes + lane; }

  /// This lane's part of every share in the buffer `space`, that of `rank` first, then as met on
  /// the way.
  std::vector<schedule::Block> parts_from(int rank, schedule::Space space) const {
    std::vector<schedule::Block> parts;
    for (int hops = 0; hops < ranks; ++hops) {
      parts.push_back(schedule::Block::of(space, part(at(rank, hops))));
    }
    return parts;
  }
};

}  // namespace tutti::algorithms::patterns
