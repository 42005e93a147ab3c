#include "algorithms/scatter/direct.h"

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::scatter {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  if (rank == p.root) {
    for (int peer : patterns::others(p.ranks, rank)) builder.send(input(peer), peer);
    builder.copy(output(0), input(rank));
  } else {
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
      .shape = patterns::shape_of<Collective::kScatter>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::scatter
