#include "algorithms/all_to_all/pairwise.h"

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/level_lanes.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::all_to_all {

using namespace schedule;

namespace {

// The partner's partner is the rank itself, for every round and any number of ranks.
int partner_of(const Parameters& p, int rank, int round) {
  return (round - rank + p.ranks) % p.ranks;
}

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const patterns::LevelLanes lanes(p);
  for (int round = 0; round < p.ranks; ++round) {
    const int partner = partner_of(p, rank, round);
    if (partner == rank) continue;
    builder.lane(lanes.between(rank, partner));
    builder.send(input(partner), partner);
  }
  builder.lane(0);
  builder.copy(output(rank), input(rank));
  for (int round = 0; round < p.ranks; ++round) {
    const int partner = partner_of(p, rank, round);
    if (partner == rank) continue;
    builder.lane(lanes.between(rank, partner));
    builder.receive(output(partner), partner);
  }
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) { return patterns::one_round(p.ranks, p.ranks - 1); }

}  // namespace

Algorithm pairwise() {
  return {
      .collective = Collective::kAllToAll,
      .name = "pairwise",
      .summary = "one message to and from every other rank, pair by pair",
      .wins = "all but very small counts on many ranks",
      .source = "folklore",
      .max_lanes = patterns::kMostLanes,
      .shape = patterns::shape_of_level_lanes<Collective::kAllToAll>,
      .schedule = schedule_of,
      .cost = cost_of,
      .lane_levels = patterns::lane_of_each_level,
  };
}

}  // namespace tutti::algorithms::all_to_all
