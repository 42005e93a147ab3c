// Which processors, GPU and network a rank of a host should use, by what is near what.
//
// Threads: pure functions. Errors: kInvalidArgument for fewer than one rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/topology/device_graph.h"
#include "src/topology/host_tree.h"

namespace tutti::topology {

struct RankPlace {
  std::vector<uint32_t> processors;  // rising
  std::string gpu;                   // "gpu 3"; empty: there is none for it
  std::string network;               // "mlx5_3"; empty: there is none
};

/// For ranks 0 .. ranks - 1 of the host. Where there are as many GPUs, rank i has the i-th and
/// shares the processors of its NUMA node with the other ranks that are there; else ranks share the
/// processors evenly, neighbours in the tree together. A rank has the network that is nearest to
/// its GPU or processors; of several, the one that fewest ranks have.
///
/// `usable`: the processors that this process may use (own_processors()), rising; ranks get no
/// others, and all of them where the host's description knows none of them.
Result<std::vector<RankPlace>> place_ranks(const HostTree& host, const DeviceGraph& devices,
                                           int ranks, std::span<const uint32_t> usable);

/// The networks that are nearest to the device of this PCI address, by name, all equally near;
/// empty where the host has no such device, or no network.
std::vector<std::string> nearest_networks(const DeviceGraph& devices, std::string_view address);

}  // namespace tutti::topology
