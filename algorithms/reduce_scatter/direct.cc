#include "algorithms/reduce_scatter/direct.h"

#include "algorithms/patterns/exchange.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::reduce_scatter {

using namespace schedule;

namespace {

Shape shape_of(const Parameters& p) {
  return {.collective = Collective::kReduceScatter,
          .ranks = p.ranks,
          .input = Partition::equal(static_cast<uint32_t>(p.ranks)),
          .output = Partition::equal(1)};
}

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  for (int peer : patterns::others(p.ranks, rank)) builder.send(input(peer), peer);
  const Block mine = input(rank);
  builder.move(output(0), patterns::in_rank_order(p.ranks, rank, mine), p.fold);
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  const auto peers = static_cast<uint32_t>(p.ranks - 1);
  return {.depth = peers > 0 ? 1u : 0u,
          .messages = peers,
          .bytes = Fraction::of(peers, 1),
          .published = Fraction::of(peers, 1),
          .scratch = {}};
}

}  // namespace

Algorithm direct() {
  return {
      .collective = Collective::kReduceScatter,
      .name = "direct",
      .summary = "send every rank its share, reduce the own share in one pass",
      .wins = "shared memory; few ranks",
      .source = "folklore",
      .shape = shape_of,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::reduce_scatter
