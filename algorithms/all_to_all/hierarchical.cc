#include "algorithms/all_to_all/hierarchical.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "algorithms/patterns/routes.h"
#include "algorithms/patterns/shape.h"
#include "algorithms/patterns/siblings.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::all_to_all {

using namespace schedule;
using patterns::Passage;
using patterns::Place;
using patterns::Siblings;

namespace {

// A rank's steps, level by level. In place a block arrives over the own one for its origin: that
// has left at the innermost level that holds both, which is this level or was one further out.
class Writer {
 public:
  Writer(const Parameters& p, int rank)
      : tree_(patterns::tree_of(p)),
        rank_(rank),
        carriers_(patterns::carriers_of(*tree_, rank)),
        builder_(rank) {}

  Schedule write() && {
    builder_.copy(output(static_cast<uint32_t>(rank_)), input(static_cast<uint32_t>(rank_)));
    for (size_t level = tree_->levels(); level-- > 0;) {
      const Siblings siblings(*tree_, level, tree_->node_of(level, rank_));
      const Place own = siblings.place_of(rank_);
      origins_.clear();
      for (int origin = 0; origin < tree_->ranks(); ++origin) {
        origins_[carriers_[level][static_cast<size_t>(origin)]].push_back(origin);
      }
      for (int hops = 1; hops < siblings.count(); ++hops) {
        send(siblings, own, siblings.further(own.child, hops));
      }
      for (int hops = 1; hops < siblings.count(); ++hops) {
        receive(siblings, own, siblings.further(own.child, -hops));
      }
    }
    return std::move(builder_).finish();
  }

 private:
  void send(const Siblings& siblings, Place own, int child) {
    std::vector<Block> blocks;
    for (const int origin : origins_.at(rank_)) {
      for (const int target : siblings.ranks_of(child)) {
        const auto index = static_cast<uint32_t>(target);
        blocks.push_back(origin == rank_ ? input(index) : kept_.at({origin, target}));
      }
    }
    builder_.send(blocks, patterns::receiver_of(siblings, own, child));
  }

  void receive(const Siblings& siblings, Place own, int child) {
    for (size_t i = 0; i < siblings.ranks_of(child).size(); ++i) {
      if (patterns::receiver_of(siblings, {child, i}, own.child) != rank_) continue;
      const int sender = siblings.ranks_of(child)[i];
      std::vector<Block> blocks;
      for (const int origin : origins_.at(sender)) {
        for (const int target : siblings.ranks_of(own.child)) {
          blocks.push_back(target == rank_ ? output(static_cast<uint32_t>(origin))
                                           : keep(origin, target));
        }
      }
      builder_.receive(blocks, sender);
    }
  }

  Block keep(int origin, int target) {
    const Block block = builder_.scratch(input(static_cast<uint32_t>(target)));
    kept_[{origin, target}] = block;
    return block;
  }

  NodeTreePointer tree_;
  int rank_;
  std::vector<std::vector<int>> carriers_;
  Builder builder_;
  std::map<int, std::vector<int>> origins_;    // of the blocks in a level's exchange, by carrier
  std::map<std::pair<int, int>, Block> kept_;  // to be passed on, by origin and target
};

Schedule schedule_of(const Parameters& p, int rank) { return Writer(p, rank).write(); }

Cost cost_of(const Parameters& p) {
  const auto passages = patterns::passages_of(*patterns::tree_of(p));
  uint64_t bytes = 0, published = 0, moved = 0, work = 0, scratch = 0;
  Cost cost;
  for (size_t rank = 0; rank < static_cast<size_t>(p.ranks); ++rank) {
    Passage all;
    for (const auto& level : passages) {
      all.sent += level[rank].sent;
      all.received += level[rank].received;
      all.kept += level[rank].kept;
      all.messages_sent += level[rank].messages_sent;
      all.messages_received += level[rank].messages_received;
    }
    cost.depth = std::max(cost.depth, passages[0][rank].depth);
    cost.messages = std::max({cost.messages, all.messages_sent, all.messages_received});
    bytes = std::max({bytes, all.sent, all.received});
    published = std::max(published, all.sent);
    moved = std::max(moved, all.sent + all.received);
    work += all.sent + all.received;
    scratch = std::max(scratch, all.kept);
  }
  cost.bytes = Fraction::of(bytes, 1);
  cost.published = Fraction::of(published, 1);
  cost.moved = Fraction::of(moved, 1);
  cost.work = Fraction::of(work, 1);
  cost.scratch = Fraction::of(scratch, 1);
  return cost;
}

LevelLoads loads_of(const Parameters& p) {
  const NodeTreePointer tree = patterns::tree_of(p);
  const auto passages = patterns::passages_of(*tree);
  LevelLoads loads{std::vector<uint32_t>(tree->levels(), p.ranks > 1 ? 1 : 0), {}};
  for (size_t level = 0; level < tree->levels(); ++level) {
    auto& cuts = loads.cuts.emplace_back();
    for (uint32_t node = 0; node < tree->nodes(level); ++node) {
      uint64_t out = 0, in = 0;
      for (const int rank : tree->ranks_of(level, node)) {
        for (size_t above = level + 1; above < tree->levels(); ++above) {
          out += passages[above][static_cast<size_t>(rank)].sent;
          in += passages[above][static_cast<size_t>(rank)].received;
        }
      }
      cuts.push_back({Fraction::of(out, 1), Fraction::of(in, 1)});
    }
  }
  return loads;
}

}  // namespace

Algorithm hierarchical() {
  return {
      .collective = Collective::kAllToAll,
      .name = "hierarchical",
      .summary = "one message to each sibling node, from the outermost level inwards",
      .wins = "small and middle counts on many ranks over slow networks",
      .source = "node-aware exchanges of MPI libraries; any tree: this library",
      .forwards = true,
      .shape = patterns::shape_of<Collective::kAllToAll>,
      .schedule = schedule_of,
      .cost = cost_of,
      .loads = loads_of,
  };
}

}  // namespace tutti::algorithms::all_to_all
