#include "algorithms/broadcast/publish_once.h"

#include "algorithms/patterns/exchange.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::broadcast {

using namespace schedule;

namespace {

Shape shape_of(const Parameters& p) {
  return {.collective = Collective::kBroadcast,
          .ranks = p.ranks,
          .root = p.root,
          .input = Partition::equal(1),
          .output = Partition::equal(1)};
}

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

Cost cost_of(const Parameters& p) {
  const auto peers = static_cast<uint32_t>(p.ranks - 1);
  return {.depth = peers > 0 ? 1u : 0u,
          .messages = peers,
          .bytes = Fraction::of(peers, 1),
          .published = Fraction::of(peers > 0 ? 1 : 0, 1),
          .scratch = {}};
}

}  // namespace

Algorithm publish_once() {
  return {
      .collective = Collective::kBroadcast,
      .name = "publish_once",
      .summary = "the root publishes to all at once",
      .wins = "shared memory; few ranks",
      .source = "folklore",
      .shape = shape_of,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::broadcast
