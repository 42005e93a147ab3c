#include "algorithms/broadcast/chain.h"

#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::broadcast {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const int previous = (rank + p.ranks - 1) % p.ranks;
  const int next = (rank + 1) % p.ranks;
  const bool is_root = rank == p.root;
  if (!is_root) builder.receive(output(0), previous);
  if (next != p.root) builder.send(is_root ? input(0) : output(0), next);
  if (is_root) builder.copy(output(0), input(0));
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  const auto hops = static_cast<uint32_t>(p.ranks - 1);
  const uint32_t messages = hops > 0 ? 1 : 0;
  return {.depth = hops,
          .messages = messages,
          .bytes = Fraction::of(messages, 1),
          .published = Fraction::of(messages, 1),
          .moved = Fraction::of(std::min(hops, 2u), 1),
          .work = Fraction::of(2 * hops, 1),
          .scratch = {}};
}

}  // namespace

Algorithm chain() {
  return {
      .collective = Collective::kBroadcast,
      .name = "chain",
      .summary = "every rank hands the data to the next, slice by slice",
      .wins = "long counts over a network",
      .source = "folklore; 'pipeline' in Open MPI",
      .nccl_name = "Ring",
      .shape = patterns::shape_of<Collective::kBroadcast>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::broadcast
