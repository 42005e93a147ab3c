#include "algorithms/reduce/binomial.h"

#include <algorithm>
#include <utility>

#include "algorithms/patterns/shape.h"
#include "algorithms/patterns/tree.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::reduce {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const patterns::AlignedPlace place = patterns::aligned_tree(p.ranks, p.root, rank);
  const bool is_root = rank == p.root;
  Block sum = input(0);
  int first = rank;  // of the ranks in the sum
  for (const patterns::Subtree& child : place.children) {
    MoveSource sources[] = {MoveSource::local(sum), MoveSource::message(child.rank)};
    if (child.first < first) std::swap(sources[0], sources[1]);
    const Block next = is_root                          ? output(0)
                       : sum.space() == Space::kScratch ? sum
                                                        : builder.scratch(sum);
    builder.move(next, sources);
    sum = next;
    first = std::min(first, child.first);
  }
  if (!is_root) builder.send(sum, place.parent);
  if (p.ranks == 1) builder.copy(output(0), sum);
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  const patterns::AlignedLoad load = patterns::aligned_load(p.ranks, p.root);
  return {.depth = load.height,
          .messages = load.most_children,
          .bytes = Fraction::of(load.most_children, 1),
          .published = Fraction::of(p.ranks > 1 ? 1 : 0, 1),
          .moved = Fraction::of(load.most_edges, 1),
          .work = Fraction::of(2 * (p.ranks - 1), 1),
          .scratch = Fraction::of(load.largest > 1 ? 1 : 0, 1)};
}

}  // namespace

Algorithm binomial() {
  return {
      .collective = Collective::kReduce,
      .name = "binomial",
      .summary = "aligned groups of 2^k ranks join in pairs until the root has the sum",
      .wins = "small counts over a network; deterministic",
      .source = "folklore; the aligned groups: this library",
      .canonical = always,
      .shape = patterns::shape_of<Collective::kReduce>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::reduce
