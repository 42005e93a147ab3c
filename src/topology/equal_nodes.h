// Which neighbours in a topology are equal, with all that they hold: they are written, printed and
// drawn once, with their number.
//
// Threads: a value; the topology outlives it. Errors: none.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "src/topology/topology.h"

namespace tutti::topology {

/// Equal nodes beside each other: without names, or with names that are a row.
struct Neighbours {
  uint32_t first = 0;  // a node
  uint32_t count = 1;
};

class EqualNodes {
 public:
  explicit EqualNodes(const Topology& topology);

  /// The children of a node of level 1 or above.
  std::vector<Neighbours> children(size_t level, uint32_t node) const;
  /// "n[01-16]"; empty where they have none.
  std::string names(size_t level, const Neighbours& nodes) const;
  /// Bytes per nanosecond that a node has of its own, whatever its level says; else 0.
  double own_uplink(size_t level, uint32_t node) const;

 private:
  using Inside = std::vector<std::tuple<uint32_t, uint32_t, std::string>>;  // kind, count, names
  using Key = std::tuple<size_t, double, uint32_t, Inside>;

  void add(size_t level, uint32_t node);
  bool continues(size_t level, uint32_t node) const;

  const Topology& topology_;
  std::map<Key, uint32_t> known_;             // kinds: equal nodes have one, with the names inside
  std::vector<std::vector<uint32_t>> kinds_;  // [level][node]
};

}  // namespace tutti::topology
