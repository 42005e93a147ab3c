// The prices of candidates in a group: that of each level by the model of its links, from what is
// counted once for each algorithm and parameters.
//
// A call waits for its busiest rank (busiest.h), whose levels take their turns: a level takes what
// the rank's messages take, and no less than the link of its node that carries them: all that
// leaves the node takes that link.
//
// Owns: what it counted. Threads: one at a time. Errors: none.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "src/group/view.h"
#include "src/select/link_model.h"
#include "src/select/priced_level.h"

namespace tutti::select {

/// All that is known of an algorithm with certain parameters.
struct Usage {
  schedule::Cost cost;
  uint32_t blocks = 0;           // of one count of elements
  std::vector<LevelUse> levels;  // of the group's tree, as many as are priced
};

class LevelPrices {
 public:
  static constexpr int kMostCounted = 64;

  /// Of one kind of link, whatever the group.
  explicit LevelPrices(const LinkModel& link) : levels_{PricedLevel{link}} {}
  /// `cores`: of every host. In groups of more than `most_counted` ranks a sample is looked at.
  LevelPrices(group::GroupPointer group, int cores, const Model& model = {},
              int most_counted = kMostCounted);

  /// The tree that parameters name.
  const schedule::NodeTreePointer& tree() const { return tree_; }
  /// The costs of the algorithm, asked for once, since it may have to be counted.
  const Usage& usage_of(const schedule::Algorithm& algorithm,
                        const schedule::Parameters& parameters);
  /// Nanoseconds of one call.
  double price(const Usage& usage, double count_bytes) const;
  const std::vector<PricedLevel>& levels() const { return levels_; }
  /// The kind of link that the outermost nodes have.
  const LinkModel& slowest() const { return levels_.back().link; }

 private:
  using Key = std::tuple<schedule::Collective, std::string_view, int, int, int, schedule::Fold,
                         const schedule::NodeTree*>;

  Usage use_of(const schedule::Algorithm& algorithm, const schedule::Parameters& parameters) const;
  size_t node_below(size_t level, int rank) const;
  std::vector<double> links_below(
      size_t level, const std::vector<std::vector<schedule::RankTraffic>>& traffic) const;
  std::vector<LevelUse> count(const schedule::Algorithm& algorithm,
                              const schedule::Parameters& parameters) const;

  group::GroupPointer group_;  // null: of one kind of link
  schedule::NodeTreePointer tree_;
  std::vector<PricedLevel> levels_;  // of the tree
  int most_counted_ = kMostCounted;
  std::map<Key, Usage> known_;
};

}  // namespace tutti::select
