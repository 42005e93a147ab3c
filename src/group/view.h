// A group of ranks as a value: which members it has, on which nodes of which levels they live, and
// what the links between them can do.
//
// A view is equal on all ranks by construction: it is made from what every rank has told all
// others. Which rank holds it stands beside it, not in it. Levels form a tree: level 0 is the
// innermost, the nodes of each level are unions of nodes of the level below, and the last level has
// one node. Two ranks talk by the link of the innermost level at which one node holds both.
//
// Threads: immutable; share it by GroupPointer, never copy it for a rank. Errors: make() says which
// rank's place contradicts the tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/member_id.h"
#include "src/base/status.h"

namespace tutti::group {

/// The things that two ranks can do by the link of a level, as far as it follows from where they
/// are.
struct Reach {
  bool map = false;     // each maps the other's arena and registered memory: loads and stores
  bool stream = false;  // messages and one-sided access over a network
  bool operator==(const Reach&) const = default;
};

struct Level {
  std::string name;  // "process", "host", "network"
  Reach reach;
  std::vector<uint32_t> nodes;  // by rank: the node that holds it, any number
  // As a description of the network says, in nanoseconds and bytes per nanosecond; 0: nothing.
  double latency_ns = 0;  // one way, between two ranks that talk by this level
  // By rank: of the link, in each direction, that joins its node to what is outside. Empty where
  // nothing is known of any.
  std::vector<double> uplinks{};
  /// The transport by which two ranks talk that have no node of a level inside in common; "": none.
  std::string transport{};
  bool operator==(const Level&) const = default;
};

class GroupView {
 public:
  /// Nodes get numbers from 0 in the order of their first ranks.
  static Result<std::shared_ptr<const GroupView>> make(uint64_t communicator, uint32_t epoch,
                                                       std::vector<MemberId> members,
                                                       std::vector<Level> levels);

  uint64_t communicator() const { return communicator_; }
  /// Rises with every edit of the group.
  uint32_t epoch() const { return epoch_; }
  int ranks() const { return static_cast<int>(members_.size()); }
  const std::vector<MemberId>& members() const { return members_; }

  size_t levels() const { return levels_.size(); }
  const Level& level(size_t index) const { return levels_[index]; }
  uint32_t node_of(size_t level, int rank) const {
    return levels_[level].nodes[static_cast<size_t>(rank)];
  }
  /// Nodes of a level.
  uint32_t nodes(size_t level) const { return static_cast<uint32_t>(first_ranks_[level].size()); }
  /// The least rank of each node of a level.
  const std::vector<int>& first_ranks(size_t level) const { return first_ranks_[level]; }

  /// The innermost level at which one node holds both. O(levels).
  size_t common_level(int a, int b) const {
    size_t level = 0;
    while (node_of(level, a) != node_of(level, b)) ++level;
    return level;
  }
  const Reach& link(int a, int b) const { return levels_[common_level(a, b)].reach; }
  /// By which they talk.
  const std::string& transport(int a, int b) const { return levels_[common_level(a, b)].transport; }

  /// The outermost level whose links map memory: its nodes are the hosts of staging, cells and
  /// counters. A rank that maps nobody's memory is a host of its own.
  uint32_t host_of(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  uint32_t hosts() const { return host_count_; }
  /// The least rank of each host.
  std::vector<int> host_first_ranks() const;
  /// All ranks of the host of a rank, itself too, in rising order. Valid as long as the view.
  std::span<const int> near_ranks(int rank) const {
    const uint32_t host = host_of(rank);
    return std::span(by_host_).subspan(host_begins_[host],
                                       host_begins_[host + 1] - host_begins_[host]);
  }
  /// The least rank of the host that has most ranks.
  int first_of_largest_host() const;
  /// The place of a rank among those.
  uint32_t near_place(int rank) const { return near_places_[static_cast<size_t>(rank)]; }
  bool operator==(const GroupView&) const = default;
  /// Whether the two map each other's memory.
  bool near(int a, int b) const { return host_of(a) == host_of(b); }

 private:
  GroupView() = default;
  void number_hosts();
  void sort_by_host();

  uint64_t communicator_ = 0;
  uint32_t epoch_ = 0;
  std::vector<MemberId> members_;
  std::vector<Level> levels_;
  std::vector<std::vector<int>> first_ranks_;  // [level][node]
  std::vector<uint32_t> hosts_;                // by rank
  uint32_t host_count_ = 0;
  std::vector<int> by_host_;           // ranks, those of a host together
  std::vector<uint32_t> host_begins_;  // by host, and the end: where its ranks begin in by_host_
  std::vector<uint32_t> near_places_;  // by rank
};

using GroupPointer = std::shared_ptr<const GroupView>;

/// Ranks on hosts that map memory, and a network between them: `hosts` by rank. For tests, and for
/// questions about groups that are not here.
GroupPointer group_on_hosts(const std::vector<int>& hosts);

}  // namespace tutti::group
