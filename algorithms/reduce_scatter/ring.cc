#include "algorithms/reduce_scatter/ring.h"

#include <vector>

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/ring.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::reduce_scatter {

using namespace schedule;
using patterns::Ring;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  std::vector<Block> passed(p.lanes);  // what each lane sends next
  for (uint16_t lane = 0; lane < p.lanes; ++lane) {
    const Ring ring = Ring::of(p, lane);
    builder.lane(lane);
    passed[lane] = input(ring.part(ring.at(rank, -1)));
    if (p.ranks == 1) builder.copy(output(lane), passed[lane]);
  }
  // All lanes send before any lane waits: one thread that runs them keeps every link busy.
  for (int round = 1; round < p.ranks; ++round) {
    for (uint16_t lane = 0; lane < p.lanes; ++lane) {
      builder.lane(lane);
      builder.send(passed[lane], Ring::of(p, lane).at(rank, 1));
    }
    for (uint16_t lane = 0; lane < p.lanes; ++lane) {
      const Ring ring = Ring::of(p, lane);
      const bool last = round == p.ranks - 1;
      const Block mine = input(ring.part(last ? rank : ring.at(rank, -round - 1)));
      const MoveSource sources[] = {MoveSource::message(ring.at(rank, -1)),
                                    MoveSource::local(mine)};
      passed[lane] = last ? output(lane) : builder.scratch(mine);
      builder.lane(lane);
      builder.move(passed[lane], sources);
    }
  }
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  const auto rounds = static_cast<uint32_t>(p.ranks - 1);
  return patterns::balanced(p.ranks, {.depth = rounds,
                                      .messages = rounds * p.lanes,
                                      .bytes = Fraction::of(rounds, 1),
                                      .published = Fraction::of(rounds, 1),
                                      .scratch = Fraction::of(rounds > 1 ? rounds - 1 : 0, 1)});
}

}  // namespace

Algorithm ring() {
  return {
      .collective = Collective::kReduceScatter,
      .name = "ring",
      .summary = "each share collects one contribution a hop on its way to its owner",
      .wins = "large counts, near neighbours",
      .source = "Patarasuk, Yuan 2009",
      .nccl_name = "Ring",
      .max_lanes = 8,
      .shape = patterns::shape_of<Collective::kReduceScatter>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::reduce_scatter
