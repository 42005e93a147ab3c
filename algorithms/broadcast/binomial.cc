#include "algorithms/broadcast/binomial.h"

#include <bit>

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/shape.h"
#include "algorithms/patterns/tree.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::broadcast {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const patterns::TreePlace place = patterns::binomial_tree(p.ranks, p.root, rank);
  const bool is_root = rank == p.root;
  if (!is_root) builder.receive(output(0), place.parent);
  if (!place.children.empty()) builder.send(is_root ? input(0) : output(0), place.children);
  if (is_root) builder.copy(output(0), input(0));
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  const auto messages = static_cast<uint32_t>(patterns::doubling_rounds(p.ranks));
  return {.depth = static_cast<uint32_t>(std::bit_width(static_cast<unsigned>(p.ranks)) - 1),
          .messages = messages,
          .bytes = Fraction::of(messages, 1),
          .published = Fraction::of(messages > 0 ? 1 : 0, 1),
          .moved = Fraction::of(p.ranks < 4 ? std::min(messages, 1u) : 2, 1),
          .work = Fraction::of(p.ranks - 1 + p.ranks / 2, 1),
          .scratch = {}};
}

}  // namespace

Algorithm binomial() {
  return {
      .collective = Collective::kBroadcast,
      .name = "binomial",
      .summary = "a binomial tree, its largest subtrees first",
      .wins = "small counts over a network",
      .source = "folklore",
      .shape = patterns::shape_of<Collective::kBroadcast>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::broadcast
