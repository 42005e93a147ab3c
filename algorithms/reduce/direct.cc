#include "algorithms/reduce/direct.h"

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::reduce {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const Block mine = input(0);
  if (rank == p.root) {
    builder.move(output(0), patterns::in_rank_order(p.ranks, rank, mine), p.fold);
  } else {
    builder.send(mine, p.root);
  }
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  return patterns::in_one_fold(p.ranks, patterns::rooted_round(p.ranks, 1));
}

}  // namespace

Algorithm direct() {
  return {
      .collective = Collective::kReduce,
      .name = "direct",
      .summary = "everybody sends to the root, which reduces all inputs in one pass",
      .wins = "small counts, few ranks; shared memory",
      .source = "folklore",
      .canonical = always,
      .shape = patterns::shape_of<Collective::kReduce>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::reduce
