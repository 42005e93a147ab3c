#include "algorithms/all_reduce/halving_doubling.h"

#include "algorithms/all_gather/recursive_doubling.h"
#include "algorithms/patterns/compose.h"
#include "algorithms/patterns/halving.h"
#include "algorithms/reduce_scatter/recursive_halving.h"

namespace tutti::algorithms::all_reduce {

using namespace schedule;

namespace {

// The bytes that a rank receives in the first phase it sends in the second, and the reverse.
Cost cost_of(const Parameters& p) {
  if (p.ranks == 1) return {};
  const patterns::HalvingLoad load = patterns::halving_load(p.ranks);
  const auto ranks = static_cast<uint64_t>(p.ranks);
  const Fraction bytes = Fraction::of(ranks - 1 + load.received, ranks);
  return {.depth = 2 * reduce_scatter::recursive_halving().cost(p).depth,
          .messages = load.total_messages,
          .bytes = bytes,
          .published = bytes,
          .moved = schedule::sum(bytes, bytes),
          .work = Fraction::of(4 * (ranks - 1), 1),
          .scratch = {}};
}

}  // namespace

Algorithm halving_doubling() {
  return patterns::compose<Collective::kAllReduce, reduce_scatter::recursive_halving,
                           all_gather::recursive_doubling>({
      .name = "halving_doubling",
      .summary = "half of the sums a round to the partner, near ones first; then all the way back",
      .wins = "middle counts over a network; deterministic",
      .source = "Rabenseifner 2004; any number of ranks: this library",
      .cost = cost_of,
  });
}

}  // namespace tutti::algorithms::all_reduce
