#include "algorithms/scatter/direct.h"

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/level_lanes.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::scatter {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const patterns::LevelLanes lanes(p);
  if (rank == p.root) {
    for (int peer : patterns::others(p.ranks, rank)) {
      builder.lane(lanes.between(rank, peer));
      builder.send(input(peer), peer);
    }
    builder.lane(0);
    builder.copy(output(0), input(rank));
  } else {
    builder.lane(lanes.between(rank, p.root));
    builder.receive(output(0), p.root);
  }
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) { return patterns::rooted_round(p.ranks, p.ranks - 1); }

}  // namespace

Algorithm direct() {
  return {
      .collective = Collective::kScatter,
      .name = "direct",
      .summary = "the root sends everybody its share",
      .wins = "shared memory; large counts; few ranks",
      .source = "folklore",
      .max_lanes = patterns::kMostLanes,
      .shape = patterns::shape_of_level_lanes<Collective::kScatter>,
      .schedule = schedule_of,
      .cost = cost_of,
      .lane_levels = patterns::lane_of_each_level,
  };
}

}  // namespace tutti::algorithms::scatter
