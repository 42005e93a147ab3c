#include "algorithms/scatter/binomial.h"

#include <span>
#include <vector>

#include "algorithms/patterns/shape.h"
#include "algorithms/patterns/tree.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::scatter {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const patterns::AlignedPlace place = patterns::aligned_tree(p.ranks, p.root, rank);
  const bool is_root = rank == p.root;
  std::vector<Block> held;  // the shares of my subtree, by rank
  for (int owner = place.own.first; owner < place.own.first + place.own.count; ++owner) {
    const Block share = input(static_cast<uint32_t>(owner));
    held.push_back(is_root ? share : owner == rank ? output(0) : builder.scratch(share));
  }
  if (!is_root) builder.receive(held, place.parent);
  // The largest subtree has the longest way to go.
  for (auto child = place.children.rbegin(); child != place.children.rend(); ++child) {
    builder.send(std::span(held).subspan(child->first - place.own.first, child->count),
                 child->rank);
  }
  if (is_root) builder.copy(output(0), input(static_cast<uint32_t>(rank)));
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  const patterns::AlignedLoad load = patterns::aligned_load(p.ranks, p.root);
  return {.depth = load.height,
          .messages = load.most_children,
          .bytes = Fraction::of(p.ranks - 1, 1),
          .published = Fraction::of(p.ranks - 1, 1),
          .moved = Fraction::of(load.most_moved, 1),
          .work = Fraction::of(2 * load.handed_over, 1),
          .scratch = Fraction::of(load.largest > 0 ? load.largest - 1 : 0, 1)};
}

}  // namespace

Algorithm binomial() {
  return {
      .collective = Collective::kScatter,
      .name = "binomial",
      .summary = "down a binomial tree, the shares of a subtree in one message",
      .wins = "small counts over a network, many ranks",
      .source = "folklore",
      .shape = patterns::shape_of<Collective::kScatter>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::scatter
