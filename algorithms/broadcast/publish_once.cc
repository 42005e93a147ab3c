#include "algorithms/broadcast/publish_once.h"

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::broadcast {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  if (rank == p.root) {
    if (p.ranks > 1) builder.send(input(0), patterns::others(p.ranks, rank));
    builder.copy(output(0), input(0));
  } else {
    builder.receive(output(0), p.root);
  }
  return std::move(builder).finish();
}

// No rank copies more than one count: less is not possible.
Cost cost_of(const Parameters& p) {
  Cost cost = patterns::rooted_round(p.ranks, 1);
  cost.moved = cost.published;
  cost.work = Fraction::of(p.ranks > 1 ? p.ranks : 0, 1);
  return cost;
}

}  // namespace

Algorithm publish_once() {
  return {
      .collective = Collective::kBroadcast,
      .name = "publish_once",
      .summary = "the root publishes to all at once: the direct broadcast",
      .wins = "shared memory; few ranks",
      .source = "folklore",
      .shape = patterns::shape_of<Collective::kBroadcast>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::broadcast
