#include "algorithms/reduce_scatter/recursive_halving.h"

#include <algorithm>
#include <vector>

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/halving.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::reduce_scatter {

using namespace schedule;
using patterns::HalvingRound;
using patterns::Handover;

namespace {

// The newest values of all shares that this rank still holds: inputs at first, sums later.
class Sums {
 public:
  Sums(Builder& builder, int ranks, int rank) : builder_(builder), rank_(rank) {
    for (int share = 0; share < ranks; ++share) blocks_.push_back(input(share));
  }

  void send(const Handover& handover) {
    std::vector<Block> leaving;
    for (int share : handover.shares) leaving.push_back(blocks_[share]);
    builder_.send(leaving, handover.peer);
  }

  void add(const Handover& handover) {
    std::vector<Block> values, sums;
    for (int share : handover.shares) {
      Block& block = blocks_[share];
      values.push_back(block);
      const bool first = block.space() == Space::kInput;
      if (first) block = share == rank_ ? output(0) : builder_.scratch(block);
      sums.push_back(block);
    }
    const MoveSource sources[] = {MoveSource::local(values), MoveSource::message(handover.peer)};
    builder_.move(sums, sources);
  }

 private:
  Builder& builder_;
  int rank_;
  std::vector<Block> blocks_;
};

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  Sums sums(builder, p.ranks, rank);
  for (int round = 0; round < patterns::doubling_rounds(p.ranks); ++round) {
    const HalvingRound part = patterns::halving_round(p.ranks, round, rank);
    for (const Handover& handover : part.sends) sums.send(handover);
    if (part.receive.peer >= 0) sums.add(part.receive);
  }
  if (p.ranks == 1) builder.copy(output(0), input(0));
  return std::move(builder).finish();
}

// After the first round, rank 0 holds the shares of all even ranks.
Cost cost_of(const Parameters& p) {
  if (p.ranks == 1) return {};
  const patterns::HalvingLoad load = patterns::halving_load(p.ranks);
  const auto others = static_cast<uint64_t>(p.ranks - 1);
  return {.depth = static_cast<uint32_t>(patterns::doubling_rounds(p.ranks)),
          .messages = load.messages,
          .bytes = Fraction::of(std::max(others, load.received), 1),
          .published = Fraction::of(others, 1),
          .moved = Fraction::of(others + load.received, 1),
          .work = Fraction::of(2 * others * static_cast<uint64_t>(p.ranks), 1),
          .scratch = Fraction::of(others / 2, 1)};
}

}  // namespace

Algorithm recursive_halving() {
  return {
      .collective = Collective::kReduceScatter,
      .name = "recursive_halving",
      .summary = "in round k groups of 2^k ranks join; each keeps the sums of half of the shares",
      .wins = "small and middle counts over a network; deterministic",
      .source = "Thakur, Rabenseifner, Gropp 2005; any number of ranks: this library",
      .canonical = always,
      .shape = patterns::shape_of<Collective::kReduceScatter>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::reduce_scatter
