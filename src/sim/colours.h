// Colour refinement over the nodes of a network and the programs of its ranks (fold.h).
//
// Threads: one. Errors: none.
#pragma once

#include <cstdint>
#include <vector>

#include "src/sim/program.h"

namespace tutti::sim {

class Colours {
 public:
  /// `ranks`: a first colour for each.
  Colours(const Network& network, std::vector<uint64_t> ranks);

  /// Until nothing changes: ranks by their nodes and what they are told by `mix_peers`, which adds
  /// the colours of a rank's peers to its own; nodes by what is in them and above them. False: it
  /// has not ended after `most_rounds`.
  template <class MixPeers>
  bool refine(MixPeers&& mix_peers, int most_rounds) {
    size_t classes = count();
    for (int round = 0; round < most_rounds; ++round) {
      colour_nodes();
      std::vector<uint64_t> next(ranks_.size());
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        next[rank] = mix_peers(rank, with_nodes(rank), ranks_);
      }
      ranks_ = std::move(next);
      const size_t now = count();
      if (now == classes && round > 0) return true;
      classes = now;
    }
    return false;
  }

  const std::vector<uint64_t>& ranks() const { return ranks_; }
  /// [level][node]
  const std::vector<std::vector<uint64_t>>& nodes() const { return nodes_; }
  /// Of the port of a rank (level 0), or of the uplink of a node of level `level` - 1.
  uint64_t of_link(const NetworkLink& link) const;

 private:
  void colour_nodes();
  uint64_t with_nodes(size_t rank) const;
  size_t count() const;

  const Network& network_;
  std::vector<uint64_t> ranks_;
  std::vector<std::vector<uint64_t>> nodes_;
};

}  // namespace tutti::sim
