#include "algorithms/all_gather/ring.h"

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/ring.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::all_gather {

using namespace schedule;
using patterns::Ring;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  // All lanes send before any lane waits: one thread that runs them keeps every link busy.
  for (int round = 1; round <= p.ranks; ++round) {
    for (uint16_t lane = 0; lane < p.lanes && round < p.ranks; ++lane) {
      const Ring ring = Ring::of(p, lane);
      const Block newest = output(ring.part(ring.at(rank, 1 - round)));
      builder.lane(lane);
      builder.send(round == 1 ? input(lane) : newest, ring.at(rank, 1));
    }
    for (uint16_t lane = 0; lane < p.lanes; ++lane) {
      const Ring ring = Ring::of(p, lane);
      builder.lane(lane);
      if (round == 1) builder.copy(output(ring.part(rank)), input(lane));
      if (round < p.ranks) {
        builder.receive(output(ring.part(ring.at(rank, -round))), ring.at(rank, -1));
      }
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
                                      .scratch = {}});
}

}  // namespace

Algorithm ring() {
  return {
      .collective = Collective::kAllGather,
      .name = "ring",
      .summary = "each share travels once around the ring",
      .wins = "large counts, near neighbours",
      .source = "Patarasuk, Yuan 2009",
      .nccl_name = "Ring",
      .max_lanes = 8,
      .shape = patterns::shape_of<Collective::kAllGather>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::all_gather
