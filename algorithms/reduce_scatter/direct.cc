#include "algorithms/reduce_scatter/direct.h"

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::reduce_scatter {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  for (int peer : patterns::others(p.ranks, rank)) builder.send(input(peer), peer);
  const Block mine = input(rank);
  builder.move(output(0), patterns::in_rank_order(p.ranks, rank, mine), p.fold);
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  return patterns::in_one_fold(p.ranks, patterns::one_round(p.ranks, p.ranks - 1));
}

}  // namespace

Algorithm direct() {
  return {
      .collective = Collective::kReduceScatter,
      .name = "direct",
      .summary = "send every rank its share, reduce the own share in one pass",
      .wins = "shared memory; few ranks",
      .source = "folklore",
      .canonical = always,
      .shape = patterns::shape_of<Collective::kReduceScatter>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::reduce_scatter
