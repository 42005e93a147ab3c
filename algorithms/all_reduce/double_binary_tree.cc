#include "algorithms/all_reduce/double_binary_tree.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/tree.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::all_reduce {

using namespace schedule;
using patterns::TreePlace;

namespace {

constexpr int kTrees = 2;

uint16_t up_lane(int tree) { return static_cast<uint16_t>(2 * tree); }
uint16_t down_lane(int tree) { return static_cast<uint16_t>(2 * tree + 1); }

Shape shape_of(const Parameters& p) {
  return {.collective = Collective::kAllReduce,
          .ranks = p.ranks,
          .lanes = 2 * kTrees,
          .input = Partition::equal(kTrees),
          .output = Partition::equal(kTrees)};
}

// Reduces half `tree` of the data into the parent's; returns the last step on the way up.
StepIndex go_up(Builder& builder, const Parameters& p, int tree, int rank) {
  const TreePlace place = patterns::complementary_tree(p.ranks, tree, rank);
  const bool is_root = place.parent == patterns::kNobody;
  const Block mine = input(tree);
  builder.lane(up_lane(tree));
  if (place.children.empty() && !is_root) return builder.send(mine, place.parent);

  std::vector<int> members = place.children;
  members.push_back(rank);
  const std::vector<MoveSource> sources = patterns::in_rank_order(members, rank, mine);
  const StepIndex reduced = builder.move(output(tree), sources, p.fold);
  return is_root ? reduced : builder.send(output(tree), place.parent);
}

// `reduced` is the last step on the way up; the way down overwrites or sends what it touches.
void go_down(Builder& builder, const TreePlace& place, int tree, StepIndex reduced) {
  const bool is_root = place.parent == patterns::kNobody;
  builder.lane(down_lane(tree));
  if (!is_root) builder.after(builder.receive(output(tree), place.parent), reduced);
  if (place.children.empty()) return;
  const StepIndex sent = builder.send(output(tree), place.children);
  if (is_root) builder.after(sent, reduced);
}

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  StepIndex reduced[kTrees];
  for (int tree = 0; tree < kTrees; ++tree) reduced[tree] = go_up(builder, p, tree, rank);
  for (int tree = 0; tree < kTrees; ++tree) {
    go_down(builder, patterns::complementary_tree(p.ranks, tree, rank), tree, reduced[tree]);
  }
  return std::move(builder).finish();
}

// With four ranks or more, some rank has a parent and two children in one tree, a parent in both.
Cost cost_of(const Parameters& p) {
  const auto height = static_cast<uint32_t>(std::bit_width(static_cast<unsigned>(p.ranks)) - 1);
  const auto messages = static_cast<uint32_t>(p.ranks == 1 ? 0 : std::min(p.ranks, 4));
  const uint32_t publications = std::min(messages, p.ranks < 4 ? 2u : 3u);
  return {.depth = 2 * height,
          .messages = messages,
          .bytes = Fraction::of(messages, kTrees),
          .published = Fraction::of(publications, kTrees),
          .moved = Fraction::of(messages + publications, kTrees),
          .work = Fraction::of(3 * (p.ranks - 1) + p.ranks / 2, 1),
          .scratch = {},
          .widest = p.ranks < 3 ? 2u : 3u};
}

}  // namespace

Algorithm double_binary_tree() {
  return {
      .collective = Collective::kAllReduce,
      .name = "double_binary_tree",
      .summary = "each half of the data up and down a tree of its own",
      .wins = "middle and large counts, many ranks",
      .source = "Sanders, Speck, Traeff 2009",
      .nccl_name = "Tree",
      .shape = shape_of,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::all_reduce
