#include "algorithms/gather/binomial.h"

#include <span>
#include <vector>

#include "algorithms/patterns/shape.h"
#include "algorithms/patterns/tree.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::gather {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const patterns::AlignedPlace place = patterns::aligned_tree(p.ranks, p.root, rank);
  const bool is_root = rank == p.root;
  std::vector<Block> held;  // the shares of my subtree, by rank
  for (int owner = place.own.first; owner < place.own.first + place.own.count; ++owner) {
    const Block share = output(static_cast<uint32_t>(owner));
    held.push_back(is_root ? share : owner == rank ? input(0) : builder.scratch(share));
  }
  if (is_root) builder.copy(output(static_cast<uint32_t>(rank)), input(0));
  for (const patterns::Subtree& child : place.children) {
    builder.receive(std::span(held).subspan(child.first - place.own.first, child.count),
                    child.rank);
  }
  if (!is_root) builder.send(held, place.parent);
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  const patterns::AlignedLoad load = patterns::aligned_load(p.ranks, p.root);
  return {.depth = load.height,
          .messages = load.most_children,
          .bytes = Fraction::of(p.ranks - 1, 1),
          .published = Fraction::of(load.largest, 1),
          .moved = Fraction::of(load.most_moved, 1),
          .work = Fraction::of(2 * load.handed_over, 1),
          .scratch = Fraction::of(load.largest > 0 ? load.largest - 1 : 0, 1)};
}

}  // namespace

Algorithm binomial() {
  return {
      .collective = Collective::kGather,
      .name = "binomial",
      .summary = "up a binomial tree, the shares of a subtree in one message",
      .wins = "small counts over a network, many ranks",
      .source = "folklore",
      .shape = patterns::shape_of<Collective::kGather>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::gather
