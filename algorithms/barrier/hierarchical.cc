#include "algorithms/barrier/hierarchical.h"

#include <algorithm>
#include <vector>

#include "algorithms/barrier/dissemination.h"
#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/shape.h"
#include "algorithms/patterns/siblings.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::barrier {

using namespace schedule;
using patterns::Place;
using patterns::Siblings;

namespace {

constexpr std::span<const Block> kNothing;  // a message that says "I am here"

// The ranks of another child that hear from this one: every m-th, where its own child has m.
std::vector<int> served(const Siblings& siblings, Place own, int child) {
  const auto ranks = siblings.ranks_of(child);
  const size_t mates = siblings.ranks_of(own.child).size();
  std::vector<int> peers;
  for (size_t i = own.place; i < ranks.size(); i += mates) peers.push_back(ranks[i]);
  return peers;
}

int server(const Siblings& siblings, Place own, int child) {
  const auto ranks = siblings.ranks_of(child);
  return ranks[own.place % ranks.size()];
}

Schedule schedule_of(const Parameters& p, int rank) {
  const NodeTreePointer tree = patterns::tree_of(p);
  Builder builder(rank);
  for (size_t level = 0; level < tree->levels(); ++level) {
    const Siblings siblings(*tree, level, tree->node_of(level, rank));
    const Place own = siblings.place_of(rank);
    const Schedule among = dissemination().schedule({.ranks = siblings.count()}, own.child);
    for (const Step& step : among.steps) {
      if (step.kind == StepKind::kMove) {
        builder.receive(kNothing, server(siblings, own, among.sources_of(step)[0].peer()));
        continue;
      }
      const auto peers = served(siblings, own, static_cast<int>(among.peers_of(step)[0]));
      if (!peers.empty()) builder.send(kNothing, peers);
    }
  }
  return std::move(builder).finish();
}

// A rank's part in all rounds. Its chain of messages may be shorter than others': it hears of a
// node that took long only in a round further on.
struct Count {
  uint32_t sent = 0, received = 0, depth = 0;
};

std::vector<Count> counts_of(const NodeTree& tree) {
  std::vector<Count> counts(static_cast<size_t>(tree.ranks()));
  for (size_t level = 0; level < tree.levels(); ++level) {
    for (uint32_t node = 0; node < tree.nodes(level); ++node) {
      const Siblings siblings(tree, level, node);
      for (int distance = 1; distance < siblings.count(); distance *= 2) {
        const std::vector<Count> before = counts;
        siblings.for_each([&](Place at) {
          Count& own = counts[static_cast<size_t>(siblings.rank_at(at))];
          const int teller = server(siblings, at, siblings.further(at.child, -distance));
          own.depth = std::max(own.depth, before[static_cast<size_t>(teller)].depth + 1);
          ++own.received;
          ++counts[static_cast<size_t>(teller)].sent;
        });
      }
    }
  }
  return counts;
}

Cost cost_of(const Parameters& p) {
  Cost cost;
  for (const Count& count : counts_of(*patterns::tree_of(p))) {
    cost.depth = std::max(cost.depth, count.depth);
    cost.messages = std::max({cost.messages, count.sent, count.received});
  }
  return cost;
}

LevelLoads loads_of(const Parameters& p) {
  const NodeTreePointer tree = patterns::tree_of(p);
  LevelLoads loads;
  for (size_t level = 0; level < tree->levels(); ++level) {
    uint32_t depth = 0;
    for (uint32_t node = 0; node < tree->nodes(level); ++node) {
      const auto children = static_cast<int>(tree->children_of(level, node).size());
      depth = std::max(depth, static_cast<uint32_t>(patterns::doubling_rounds(children)));
    }
    loads.depth.push_back(depth);
    loads.cuts.emplace_back(tree->nodes(level));  // nothing but messages without bytes
  }
  return loads;
}

}  // namespace

Algorithm hierarchical() {
  return {
      .collective = Collective::kBarrier,
      .name = "hierarchical",
      .summary = "dissemination among the children of every node, from the innermost outwards",
      .wins = "on hosts with a slow network between them",
      .source = "Hensgen, Finkel, Manber 1988; over levels: this library",
      .shape = patterns::shape_of<Collective::kBarrier>,
      .schedule = schedule_of,
      .cost = cost_of,
      .loads = loads_of,
  };
}

}  // namespace tutti::algorithms::barrier
