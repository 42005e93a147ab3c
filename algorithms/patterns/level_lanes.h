// Lanes for algorithms whose messages do not wait for each other: those between ranks of one host
// have a lane, and those of each level further out another one. So a message between far hosts can
// be as long as its way asks for, while the near ones are cut as short as staging memory wants it.
//
// Threads: values. Errors: none; without a tree all messages are in lane 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/patterns/shape.h"
#include "algorithms/patterns/siblings.h"
#include "src/schedule/algorithm.h"

namespace tutti::algorithms::patterns {

class LevelLanes {
 public:
  explicit LevelLanes(const schedule::Parameters& p) : tree_(tree_of(p)), lanes_(p.lanes) {}

  size_t count() const { return std::min<size_t>(tree_->levels(), lanes_); }
  /// Of the messages between two ranks: that of their level, and the last one for those behind it.
  uint16_t between(int a, int b) const {
    return static_cast<uint16_t>(std::min(tree_->common_level(a, b), count() - 1));
  }

 private:
  schedule::NodeTreePointer tree_;
  uint16_t lanes_;
};

/// Algorithm::lane_levels: lane i has level i, and the last one those behind it, too.
inline std::vector<size_t> lane_of_each_level(const schedule::Parameters& p) {
  std::vector<size_t> levels(LevelLanes(p).count());
  for (size_t i = 0; i < levels.size(); ++i) levels[i] = i;
  return levels;
}

/// Algorithm::shape: lanes do not cut the data.
template <schedule::Collective kCollective>
schedule::Shape shape_of_level_lanes(const schedule::Parameters& p) {
  schedule::Parameters whole = p;
  whole.lanes = 1;
  schedule::Shape shape = shape_of<kCollective>(whole);
  shape.lanes = p.lanes;
  return shape;
}

}  // namespace tutti::algorithms::patterns
