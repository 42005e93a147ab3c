#include "algorithms/gather/direct.h"

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::gather {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  if (rank == p.root) {
    builder.copy(output(rank), input(0));
    for (int peer : patterns::others(p.ranks, rank)) builder.receive(output(peer), peer);
  } else {
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
      .shape = patterns::shape_of<Collective::kGather>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::gather
