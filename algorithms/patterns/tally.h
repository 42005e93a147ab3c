// Counts what the schedules of ranks cost, for algorithms whose cost no formula gives.
//
// Threads: values. Errors: none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::patterns {

class Tally {
 public:
  /// `units` of one `count` in which every block is whole.
  Tally(const schedule::Shape& shape, uint64_t units);

  /// A rank, and how many there are whose schedules are like it.
  void add(const schedule::Schedule& schedule, uint64_t alike);

  /// Of the depth no rank knows alone.
  schedule::Cost cost(uint32_t depth) const;

 private:
  uint64_t width_of(const schedule::Schedule& schedule,
                    std::span<const schedule::Block> blocks) const;

  uint64_t units_;
  std::vector<uint64_t> widths_[2];  // of input and output blocks
  uint32_t messages_ = 0, widest_ = 2;
  uint64_t bytes_ = 0, published_ = 0, moved_ = 0, work_ = 0, scratch_ = 0;
};

/// The longest chain of messages of each level of the tree.
std::vector<uint32_t> count_depths(const schedule::Shape& shape,
                                   std::vector<schedule::Schedule> schedules,
                                   const schedule::NodeTree& tree);

}  // namespace tutti::algorithms::patterns
