// A machine or a cluster as a value: a tree of levels, and the links between their nodes.
//
// Levels have any number and any names: core, numa, host, rack, zone, region. Level 0 is the
// innermost, as in group::GroupView, and the last one has a single node. A leaf is what a node of
// level 0 holds: in a cluster the place of one rank, in a machine one processor. Nodes and leaves
// of each level are numbered from 0 in the order of the tree, so the children of a node are
// neighbours. Exactly one level is named "host": its nodes are the machines with an operating
// system each, and a host is found by the name that it calls itself (host_name()).
//
// Two leaves talk by the innermost level at which one node holds both. Bytes between them
// take the uplink of every node below that one on both sides, once in each direction.
//
// Threads: a value, immutable once made. Errors: make() begins with "line N: " where the
// description has lines. Units: nanoseconds, bytes per nanosecond (which are GB/s); 0 where nobody
// said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace tutti::topology {

inline constexpr std::string_view kHostLevel = "host";

/// A level as it is described.
struct LevelSpec {
  std::string name;
  /// One way, between two leaves whose innermost common node is of this level.
  double latency_ns = 0;
  /// Of the link by which each child is joined to its node, in each direction.
  double port_bytes_per_ns = 0;
  /// The sum of the ports of a node, over its uplink: 2.8 where the uplink of
  /// a rack is thinner than those of its hosts together. 0: the uplink is a port of the level
  /// above.
  double oversubscription = 0;
  /// Of all that the children of a node exchange at the same time, where they share a medium such
  /// as a memory bus. 0: nothing but the ports bounds it.
  double shared_bytes_per_ns = 0;
  int line = 0;  // where it is described; 0: nowhere
};

/// Nodes that are equal but for their names.
struct NodeSpec {
  std::vector<std::string> names{};  // none, or one for each
  uint32_t count = 1;
  double uplink_bytes_per_ns = 0;    // 0: as the levels say
  uint32_t leaves = 0;               // of a node of level 0, else 0
  std::vector<NodeSpec> children{};  // of a node of another level
  int line = 0;
};

/// Numbers from `first` up to, but not including, `last`.
struct NumberRange {
  uint32_t first = 0;
  uint32_t last = 0;
  uint32_t size() const { return last - first; }
};

class Topology {
 public:
  static constexpr size_t kMostLevels = 16;
  static constexpr uint32_t kMostLeaves = uint32_t{1} << 22;

  /// `levels` from the innermost, `root` the node of the last one.
  static Result<Topology> make(std::string name, std::vector<LevelSpec> levels,
                               const NodeSpec& root);

  const std::string& name() const { return name_; }
  size_t levels() const { return levels_.size(); }
  const LevelSpec& level(size_t index) const { return levels_[index]; }
  size_t host_level() const { return host_level_; }

  uint32_t leaves() const { return static_cast<uint32_t>(node_of_[0].size()); }
  uint32_t nodes(size_t level) const {
    return static_cast<uint32_t>(first_child_[level].size()) - 1;
  }
  uint32_t node_of(size_t level, uint32_t leaf) const { return node_of_[level][leaf]; }
  /// Nodes of the level below, leaves for level 0.
  NumberRange children(size_t level, uint32_t node) const {
    return {first_child_[level][node], first_child_[level][node + 1]};
  }
  NumberRange leaves_of(size_t level, uint32_t node) const;
  /// The node of the level above; not for the last level.
  uint32_t parent(size_t level, uint32_t node) const {
    return node_of(level + 1, leaves_of(level, node).first);
  }
  /// The innermost level at which one node holds both. O(levels).
  size_t common_level(uint32_t leaf, uint32_t other) const {
    size_t level = 0;
    while (node_of(level, leaf) != node_of(level, other)) ++level;
    return level;
  }

  /// Empty where it has none.
  std::string_view node_name(size_t level, uint32_t node) const;
  std::optional<uint32_t> find_host(std::string_view name) const;
  /// For messages and pictures: "rack 'r7'", or by its number "rack 7".
  std::string describe(size_t level, uint32_t node) const;

  /// From the node to its parent, in each direction.
  double uplink_bytes_per_ns(size_t level, uint32_t node) const { return uplinks_[level][node]; }
  /// Whether the node has an uplink of its own, which follows from no level.
  bool has_own_uplink(size_t level, uint32_t node) const;

  /// Where it was described does not count.
  bool operator==(const Topology& other) const;

 private:
  Topology() = default;
  Status take_levels(std::vector<LevelSpec> levels);
  void add(const NodeSpec& spec, size_t level, uint32_t which);
  void sort_hosts();
  void set_uplinks();

  std::string name_;
  std::vector<LevelSpec> levels_;
  size_t host_level_ = 0;
  std::vector<std::vector<uint32_t>> first_child_;  // [level][node], and where the last one ends
  std::vector<std::vector<uint32_t>> node_of_;      // [level][leaf]
  std::vector<std::vector<std::string>> names_;     // [level]: empty, or by node
  std::vector<std::vector<double>> uplinks_;        // [level][node]
  std::vector<std::vector<double>> own_uplinks_;    // [level]: empty, or by node; 0: none
  std::vector<uint32_t> hosts_by_name_;
};

}  // namespace tutti::topology
