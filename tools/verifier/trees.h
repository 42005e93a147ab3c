// Trees of nodes on which schedules that cross levels are proved.
//
// Threads: values; a RandomTrees belongs to one thread. Errors: none.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "src/schedule/node_tree.h"

namespace tutti::schedule {

/// Of so many ranks on two to so many levels: nodes of any sizes, one child too, and in every
/// second tree ranks in any order. The same seed gives the same trees.
class RandomTrees {
 public:
  explicit RandomTrees(uint64_t seed) : random_(seed) {}

  NodeTreePointer make(int least_ranks, int most_ranks, int most_levels);
  int pick(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

 private:
  void cut(int level, int begin, int end);

  std::mt19937_64 random_;
  std::vector<int> places_;
  std::vector<std::vector<uint32_t>> nodes_;
  uint32_t next_ = 1;
};

/// "3 levels: ((( 0 4)( 1))(( 2 3 5)))"
std::string print(const NodeTree& tree);

}  // namespace tutti::schedule
