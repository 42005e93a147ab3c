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
using patterns::Siblings;

namespace {

constexpr std::span<const Block> kNothing;  // a message that says "I am here"

// The ranks of another child that hear from this one: every m-th, where its own child has m.
std::vector<int> served(const Siblings& siblings, int child) {
  const auto ranks = siblings.ranks_of(child);
  std::vector<int> peers;
  for (size_t i = siblings.place(); i < ranks.size(); i += siblings.ranks_of(siblings.own()).size())
    peers.push_back(ranks[i]);
  return peers;
}

int server(const Siblings& siblings, int child) {
  const auto ranks = siblings.ranks_of(child);
  return ranks[siblings.place() % ranks.size()];
}

Schedule schedule_of(const Parameters& p, int rank) {
  const NodeTreePointer tree = patterns::tree_of(p);
  Builder builder(rank);
  for (size_t level = 0; level < tree->levels(); ++level) {
    const Siblings siblings(*tree, level, rank);
    const Schedule among = dissemination().schedule({.ranks = siblings.count()}, siblings.own());
    for (const Step& step : among.steps) {
      if (step.kind == StepKind::kMove) {
        builder.receive(kNothing, server(siblings, among.sources_of(step)[0].peer()));
        continue;
      }
      const auto peers = served(siblings, static_cast<int>(among.peers_of(step)[0]));
      if (!peers.empty()) builder.send(kNothing, peers);
    }
  }
  return std::move(builder).finish();
}

// The longest chain of messages that ends at any rank: nodes that took longer are heard of by some
// ranks only in rounds further on.
uint32_t depth_of(const NodeTree& tree) {
  std::vector<uint32_t> clocks(static_cast<size_t>(tree.ranks()), 0);
  for (size_t level = 0; level < tree.levels(); ++level) {
    bool goes_on = true;
    for (int distance = 1; goes_on; distance *= 2) {
      goes_on = false;
      const std::vector<uint32_t> before = clocks;
      for (int rank = 0; rank < tree.ranks(); ++rank) {
        const Siblings siblings(tree, level, rank);
        if (distance >= siblings.count()) continue;
        goes_on = true;
        const int child = (siblings.own() - distance + siblings.count()) % siblings.count();
        const uint32_t heard = before[static_cast<size_t>(server(siblings, child))] + 1;
        uint32_t& clock = clocks[static_cast<size_t>(rank)];
        clock = std::max(clock, heard);
      }
    }
  }
  return *std::max_element(clocks.begin(), clocks.end());
}

Cost cost_of(const Parameters& p) {
  const NodeTreePointer tree = patterns::tree_of(p);
  Cost cost;
  cost.depth = depth_of(*tree);
  for (int rank = 0; rank < p.ranks; ++rank) {
    size_t sent = 0, received = 0;
    for (size_t level = 0; level < tree->levels(); ++level) {
      const Siblings siblings(*tree, level, rank);
      for (int distance = 1; distance < siblings.count(); distance *= 2) {
        sent += served(siblings, (siblings.own() + distance) % siblings.count()).size();
        ++received;
      }
    }
    cost.messages = std::max(cost.messages, static_cast<uint32_t>(std::max(sent, received)));
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
