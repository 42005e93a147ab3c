#include "algorithms/all_gather/recursive_doubling.h"

#include <algorithm>
#include <vector>

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/halving.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::all_gather {

using namespace schedule;
using patterns::HalvingRound;
using patterns::Handover;

namespace {

// Recursive halving backwards: who would add a share now sends it.
Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const auto blocks_of = [&](const Handover& handover) {
    std::vector<Block> blocks;
    for (int share : handover.shares) {
      blocks.push_back(share == rank ? input(0) : output(share));
    }
    return blocks;
  };
  for (int round = patterns::doubling_rounds(p.ranks) - 1; round >= 0; --round) {
    const HalvingRound part = patterns::halving_round(p.ranks, round, rank);
    if (part.receive.peer >= 0) builder.send(blocks_of(part.receive), part.receive.peer);
    for (const Handover& handover : part.sends) {
      builder.receive(blocks_of(handover), handover.peer);
    }
  }
  builder.copy(output(rank), input(0));
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  if (p.ranks == 1) return {};
  const patterns::HalvingLoad load = patterns::halving_load(p.ranks);
  const auto others = static_cast<uint64_t>(p.ranks - 1);
  return {.depth = static_cast<uint32_t>(patterns::doubling_rounds(p.ranks)),
          .messages = load.messages,
          .bytes = Fraction::of(std::max(others, load.received), 1),
          .published = Fraction::of(load.received, 1),
          .moved = Fraction::of(others + load.received, 1),
          .work = Fraction::of(2 * others * static_cast<uint64_t>(p.ranks), 1),
          .scratch = {}};
}

}  // namespace

Algorithm recursive_doubling() {
  return {
      .collective = Collective::kAllGather,
      .name = "recursive_doubling",
      .summary = "ranks far apart swap their shares, then ranks half as far apart all they have",
      .wins = "small and middle counts over a network, powers of two",
      .source = "Thakur, Rabenseifner, Gropp 2005; any number of ranks: this library",
      .shape = patterns::shape_of<Collective::kAllGather>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::all_gather
