#include "algorithms/gather/direct.h"

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/level_lanes.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::gather {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const patterns::LevelLanes lanes(p);
  if (rank == p.root) {
    builder.copy(output(rank), input(0));
    for (int peer : patterns::others(p.ranks, rank)) {
      builder.lane(lanes.between(rank, peer));
      builder.receive(output(peer), peer);
    }
  } else {
    builder.lane(lanes.between(rank, p.root));
    builder.send(input(0), p.root);
  }
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) { return patterns::rooted_round(p.ranks, 1); }

}  // namespace

Algorithm direct() {
  return {
      .collective = Collective::kGather,
      .name = "direct",
      .summary = "everybody sends its share to the root",
      .wins = "shared memory; large counts; few ranks",
      .source = "folklore",
      .max_lanes = patterns::kMostLanes,
      .shape = patterns::shape_of_level_lanes<Collective::kGather>,
      .schedule = schedule_of,
      .cost = cost_of,
      .lane_levels = patterns::lane_of_each_level,
  };
}

}  // namespace tutti::algorithms::gather
