// Which rank a call waits for: the one whose messages and bytes take the longest, over all levels;
// what it sends and what it receives go on at the same time.
//
// A rank's levels take their turns, but those of different ranks do not: in a ring one rank has all
// messages of a level and none of the others. Threads: pure. Errors: none.
#pragma once

#include <span>
#include <vector>

#include "src/schedule/rank_traffic.h"
#include "src/select/link_model.h"
#include "src/select/priced_level.h"

namespace tutti::select {

/// The part of one rank at each level.
struct RankUse {
  const std::vector<schedule::RankTraffic>* traffic = nullptr;
  // For each byte of one `count`: what the links take that it shares with others.
  std::vector<double> links_ns_per_byte;
};

/// Fills in messages, bytes, copies and links.
void take_busiest(std::span<const RankUse> ranks, std::span<const PricedLevel> priced,
                  std::vector<LevelUse>& uses);

}  // namespace tutti::select
