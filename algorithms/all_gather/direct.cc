#include "algorithms/all_gather/direct.h"

#include "algorithms/patterns/exchange.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::all_gather {

using namespace schedule;

namespace {

Shape shape_of(const Parameters& p) {
  return {.collective = Collective::kAllGather,
          .ranks = p.ranks,
          .input = Partition::equal(1),
          .output = Partition::equal(static_cast<uint32_t>(p.ranks))};
}

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const std::vector<int> peers = patterns::others(p.ranks, rank);
  if (!peers.empty()) builder.send(input(0), peers);
  builder.copy(output(rank), input(0));
  for (int peer : peers) builder.receive(output(peer), peer);
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  const auto peers = static_cast<uint32_t>(p.ranks - 1);
  return {.depth = peers > 0 ? 1u : 0u,
          .messages = peers,
          .bytes = Fraction::of(peers, 1),
          .published = Fraction::of(peers > 0 ? 1 : 0, 1),
          .scratch = {}};
}

}  // namespace

Algorithm direct() {
  return {
      .collective = Collective::kAllGather,
      .name = "direct",
      .summary = "publish the own share to all, receive all others",
      .wins = "shared memory; small counts",
      .source = "folklore",
      .shape = shape_of,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::all_gather
