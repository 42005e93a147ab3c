#include "algorithms/all_gather/direct.h"

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::all_gather {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const std::vector<int> peers = patterns::others(p.ranks, rank);
  if (!peers.empty()) builder.send(input(0), peers);
  builder.copy(output(rank), input(0));
  for (int peer : peers) builder.receive(output(peer), peer);
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) { return patterns::one_round(p.ranks, 1); }

}  // namespace

Algorithm direct() {
  return {
      .collective = Collective::kAllGather,
      .name = "direct",
      .summary = "publish the own share to all, receive all others",
      .wins = "shared memory; small counts",
      .source = "folklore",
      .shape = patterns::shape_of<Collective::kAllGather>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::all_gather
