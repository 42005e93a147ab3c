// The network of a cluster that a file describes: one rank for each of its leaves.
//
// Ranks of a host map each other's memory, and what is between hosts are streams. A latency is that
// of the level, an uplink that of the node. The memory that the copies of a host share is its host
// level's shared medium.
//
// Threads: pure. Errors: a topology that the simulator has no meaning for.
#pragma once

#include "src/sim/network.h"
#include "src/topology/topology.h"

namespace tutti::sim {

Result<Network> network_of(const topology::Topology& topology);

}  // namespace tutti::sim
