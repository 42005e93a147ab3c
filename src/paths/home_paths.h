// The paths of each source over the several links that an uplink is: as many of them as there are
// for each rank of its node, one at the least.
//
// A collective has all ranks of a node send at the same time, so sources are spread and not
// connections: the first of a node has the first paths, the next one the next. Whichever ranks of a
// node send across its uplink, and whichever step a collective of equal ranks is in, their sends
// are spread evenly. A source that has several paths takes the next one for the next target. Nodes
// begin at different paths, so that what several of them send to one target is spread, too.
//
// Owns: the order in which sources came. Threads: one object belongs to one thread. Errors: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace tutti::paths {

class HomePaths {
 public:
  /// By node the ranks in it; each node's uplink is so many `paths`.
  HomePaths(std::vector<uint32_t> ranks, uint32_t paths)
      : paths_(paths), ranks_(std::move(ranks)), sources_(ranks_.size(), 0) {}

  /// Of what `source`, which lies in `node`, sends to `target`.
  uint32_t path_of(uint32_t source, uint32_t node, uint32_t target) {
    const auto [found, is_new] = numbers_.try_emplace({node, source}, sources_[node]);
    if (is_new) ++sources_[node];
    const uint32_t own = std::max(1u, paths_ / std::max(1u, ranks_[node]));
    return (node + found->second * own + target % own) % paths_;
  }

 private:
  uint32_t paths_;
  std::vector<uint32_t> ranks_;                                // by node
  std::vector<uint32_t> sources_;                              // by node: that have asked
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers_;  // by node and source
};

}  // namespace tutti::paths
