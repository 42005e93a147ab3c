#include "algorithms/all_reduce/one_shot.h"

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::all_reduce {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const Block mine = input(0);
  if (p.ranks > 1) builder.send(mine, patterns::others(p.ranks, rank));
  // The same fold in the same order on every rank: equal bits.
  builder.move(output(0), patterns::in_rank_order(p.ranks, rank, mine), p.fold);
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  return patterns::in_one_fold(p.ranks, patterns::one_round(p.ranks, 1));
}

}  // namespace

Algorithm one_shot() {
  return {
      .collective = Collective::kAllReduce,
      .name = "one_shot",
      .summary = "publish the input to all, reduce all inputs in one pass",
      .wins = "small counts",
      .source = "folklore",
      .canonical = always,
      .shape = patterns::shape_of<Collective::kAllReduce>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::all_reduce
