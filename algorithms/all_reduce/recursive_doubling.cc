#include "algorithms/all_reduce/recursive_doubling.h"

#include <algorithm>

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::all_reduce {

using namespace schedule;
using patterns::Doubling;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  Block sum = input(0);  // of my group
  for (int round = 0; round < patterns::doubling_rounds(p.ranks); ++round) {
    const Doubling part = patterns::doubling(p.ranks, round, rank);
    if (!part.targets.empty()) builder.send(sum, part.targets);
    if (part.source < 0) continue;
    MoveSource sources[] = {MoveSource::local(sum), MoveSource::message(part.source)};
    if (!part.lower) std::swap(sources[0], sources[1]);
    builder.move(output(0), sources);
    sum = output(0);
  }
  if (p.ranks == 1) builder.copy(output(0), input(0));
  return std::move(builder).finish();
}

// Rank 0 publishes in every round. The last rank sends most: its group is the one that may be
// small, and it serves no fewer than any other rank of that group. Where two groups join all their
// ranks receive, and as many of each publish as the smaller one has.
Cost cost_of(const Parameters& p) {
  const int last = p.ranks - 1;
  const auto rounds = static_cast<uint32_t>(patterns::doubling_rounds(p.ranks));
  uint32_t messages = 0;
  int work = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    const int size = 1 << round;
    const int group = p.ranks - last / size * size;  // size of the last one
    const bool pairs = last / size % 2 == 1;
    if (pairs) messages += static_cast<uint32_t>((size + group - 1) / group);
    const int alone = p.ranks % (2 * size) - size;  // ranks of a small group that joins a full one
    work += p.ranks / (2 * size) * 4 * size + (alone > 0 ? size + 3 * alone : 0);
  }
  return {.depth = rounds,
          .messages = messages,
          .bytes = Fraction::of(messages, 1),
          .published = Fraction::of(rounds, 1),
          .moved = Fraction::of(2 * rounds, 1),
          .work = Fraction::of(static_cast<uint64_t>(work), 1),
          .scratch = {}};
}

}  // namespace

Algorithm recursive_doubling() {
  return {
      .collective = Collective::kAllReduce,
      .name = "recursive_doubling",
      .summary = "in round k groups of 2^k ranks exchange their sums",
      .wins = "small counts over a network; deterministic",
      .source = "folklore; Thakur, Rabenseifner, Gropp 2005",
      .canonical = always,
      .shape = patterns::shape_of<Collective::kAllReduce>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::all_reduce
