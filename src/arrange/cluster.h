// The cluster that a training job is arranged on: levels of equal nodes, from the innermost.
//
// A cluster file may describe nodes that differ. A job of equal ranks uses the largest part of it
// in which all nodes of a level have as many children; what lies outside of that part is counted
// and named. A link is as fast as the slowest of its level in that part.
//
// Threads: values. Units: nanoseconds, bytes per nanosecond. Errors: kInvalidArgument for a level
// without a bandwidth, for latencies that fall towards the outside, and for a number of places that
// the levels cannot hold evenly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/topology/topology.h"

namespace tutti::arrange {

struct ClusterLevel {
  std::string name;
  uint32_t size = 1;        // children of a node: places of ranks in level 0
  double latency_ns = 0;    // one way, between two places whose innermost common node is of it
  double bytes_per_ns = 0;  // of the link of each child, in each direction
  bool maps = false;        // its places map each other's memory
};

struct EvenCluster {
  std::vector<ClusterLevel> levels;
  uint32_t left_out = 0;  // places of the file that the even part does not have

  uint32_t places() const;
  /// The places of a node of this level.
  uint32_t places_of(size_t level) const;
};

Status check(const EvenCluster& cluster);

/// `places`: so many of them, filling inner nodes first; 0: as many as there are.
Result<EvenCluster> even_part(const topology::Topology& topology, uint32_t places = 0);

}  // namespace tutti::arrange
