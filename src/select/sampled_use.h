// The work of a call in a group that is too large to look at the schedules of all ranks: an
// estimate from those of a few, the same few on every rank.
//
// The bytes that leave a node are estimated from its first and last rank, which alone cross its cut
// in many algorithms, the root where it holds it, and some that stand for all others. Of what is
// composed over levels, whose ranks share what crosses a cut, the first rank and one other do. Of
// each level the first and the last node are looked at, the root's, and the one whose uplink is the
// slowest.
//
// How the declared depth is made up of levels no rank knows alone. Where it is long (a ring), and
// where every rank sends in every round, levels have as large a part in it as in the messages;
// else it is a tree's, whose parts grow with the logarithm of the children of a node.
//
// Threads: values. Units: as schedule::LevelCost. Errors: none.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "src/schedule/algorithm.h"
#include "src/schedule/rank_traffic.h"
#include "src/select/link_model.h"
#include "src/select/priced_level.h"

namespace tutti::select {

class SampledUse {
 public:
  /// All are kept by reference.
  SampledUse(const schedule::Algorithm& algorithm, const schedule::Parameters& parameters,
             const schedule::Shape& shape, const schedule::NodeTree& tree);

  /// Of the busiest rank that was looked at.
  schedule::Cost cost();
  /// `cost` as declared, or as above.
  std::vector<LevelUse> levels(const schedule::Cost& cost, const std::vector<PricedLevel>& priced);

 private:
  struct SampledRank {
    std::vector<schedule::RankTraffic> traffic;  // by level
    double published = 0, scratch = 0;
    uint32_t widest = 2;
  };
  /// It stands for so many.
  struct Weighed {
    int rank = 0;
    double weight = 1;
  };
  /// The messages and bytes of the ranks of a node.
  struct NodeSums {
    double messages = 0;  // of the level above the node
    double own_messages = 0, own_moved = 0;
    double out = 0, in = 0;
  };

  const SampledRank& look_at(int rank);
  std::vector<Weighed> sample_of(size_t level, uint32_t node) const;
  std::vector<uint32_t> nodes_of(size_t level, const std::vector<double>& uplinks) const;
  NodeSums add_up(size_t level, uint32_t node);
  void look_at_nodes(const std::vector<PricedLevel>& priced);
  double link_of(size_t level, int rank, const std::vector<double>& uplinks) const;
  void guess_chains(schedule::LevelCost& cost) const;
  void share_depth(const schedule::Cost& cost, std::vector<LevelUse>& uses) const;

  const schedule::Algorithm& algorithm_;
  const schedule::Parameters& parameters_;
  const schedule::NodeTree& tree_;
  const schedule::BlockWidths widths_;
  const schedule::LevelMap map_;
  const bool composed_;
  const bool rooted_;
  std::map<int, SampledRank> ranks_;
  std::vector<std::map<uint32_t, NodeSums>> nodes_;  // by level
};

}  // namespace tutti::select
