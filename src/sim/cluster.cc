#include "src/sim/cluster.h"

#include <utility>

namespace tutti::sim {

Result<Network> network_of(const topology::Topology& topology) {
  std::vector<TreeLevel> levels;
  for (size_t i = 0; i < topology.levels(); ++i) {
    const topology::LevelSpec& from = topology.level(i);
    const bool maps = i <= topology.host_level();
    if (from.shared_bytes_per_ns > 0 && i != topology.host_level()) {
      return Status::unsupported("level '" + from.name +
                                 "' shares a medium: the simulator knows that of hosts only");
    }
    TreeLevel level{.name = from.name,
                    .latency_ns = from.latency_ns,
                    .maps = maps,
                    .nodes = {},
                    .uplinks = {},
                    .shared_bytes_per_ns = from.shared_bytes_per_ns};
    for (uint32_t leaf = 0; leaf < topology.leaves(); ++leaf) {
      level.nodes.push_back(topology.node_of(i, leaf));
    }
    for (uint32_t node = 0; node < topology.nodes(i); ++node) {
      const bool is_root = i + 1 == topology.levels();
      level.uplinks.push_back(is_root ? 0 : topology.uplink_bytes_per_ns(i, node));
    }
    levels.push_back(std::move(level));
  }
  std::vector<double> ports(topology.leaves(), topology.level(0).port_bytes_per_ns);
  return Network::make(std::move(levels), std::move(ports));
}

}  // namespace tutti::sim
