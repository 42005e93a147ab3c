#include "src/arrange/cluster.h"

#include <algorithm>
#include <set>

namespace tutti::arrange {
namespace {

using topology::Topology;

/// The nodes of each level that an even part has, for children as many as `sizes` says.
struct EvenShape {
  std::vector<uint32_t> sizes;               // by level
  std::vector<std::vector<uint32_t>> nodes;  // by level, those that are large enough
  uint64_t places = 0;
};

// Tries every number of children that some node has, level by level.
class EvenShapes {
 public:
  explicit EvenShapes(const Topology& topology) : topology_(topology) {}

  EvenShape largest() {
    extend(0);
    return best_;
  }

 private:
  // By node of the level: how many children of it are in the part so far.
  std::vector<uint32_t> children_of(size_t level) const {
    std::vector<uint32_t> counts(topology_.nodes(level), 0);
    if (level == 0) {
      for (uint32_t node = 0; node < counts.size(); ++node) {
        counts[node] = topology_.children(0, node).size();
      }
      return counts;
    }
    for (const uint32_t node : now_.nodes[level - 1]) ++counts[topology_.parent(level - 1, node)];
    return counts;
  }

  void extend(size_t level) {
    if (level == topology_.levels()) {
      uint64_t places = 1;
      for (const uint32_t size : now_.sizes) places *= size;
      if (places > best_.places) {
        best_ = now_;
        best_.places = places;
      }
      return;
    }
    const std::vector<uint32_t> counts = children_of(level);
    const std::set<uint32_t> sizes(counts.begin(), counts.end());
    for (const uint32_t size : sizes) {
      if (size == 0) continue;
      std::vector<uint32_t> nodes;
      for (uint32_t node = 0; node < counts.size(); ++node) {
        if (counts[node] >= size) nodes.push_back(node);
      }
      now_.sizes.push_back(size);
      now_.nodes.push_back(std::move(nodes));
      extend(level + 1);
      now_.sizes.pop_back();
      now_.nodes.pop_back();
    }
  }

  const Topology& topology_;
  EvenShape now_, best_;
};

std::string in_quotes(const std::string& name) { return "'" + name + "'"; }

}  // namespace

uint32_t EvenCluster::places() const { return levels.empty() ? 0 : places_of(levels.size() - 1); }

uint32_t EvenCluster::places_of(size_t level) const {
  uint32_t places = 1;
  for (size_t i = 0; i <= level; ++i) places *= levels[i].size;
  return places;
}

Status check(const EvenCluster& cluster) {
  if (cluster.levels.empty()) return Status::invalid_argument("a cluster has a level at least");
  uint64_t places = 1;
  for (const ClusterLevel& level : cluster.levels) {
    places *= level.size;
    if (level.size == 0 || places > Topology::kMostLeaves) {
      return Status::invalid_argument(
          "level " + in_quotes(level.name) + " of " + std::to_string(level.size) +
          " children: a cluster has 1 to " + std::to_string(Topology::kMostLeaves) + " places");
    }
    if (!(level.bytes_per_ns > 0)) {
      return Status::invalid_argument("level " + in_quotes(level.name) +
                                      " has no bandwidth above 0; give it port_GB_per_s, or the "
                                      "level inside of it oversubscription");
    }
    if (!(level.latency_ns >= 0)) {
      return Status::invalid_argument("the latency of level " + in_quotes(level.name) +
                                      " is negative");
    }
  }
  for (size_t i = 1; i < cluster.levels.size(); ++i) {
    const ClusterLevel &inner = cluster.levels[i - 1], &outer = cluster.levels[i];
    if (outer.latency_ns >= inner.latency_ns) continue;
    return Status::invalid_argument("level " + in_quotes(outer.name) +
                                    " has a lower latency than " + in_quotes(inner.name) +
                                    ", which lies inside of it");
  }
  return {};
}

Result<EvenCluster> even_part(const Topology& topology, uint32_t places) {
  const EvenShape shape = EvenShapes(topology).largest();
  EvenCluster cluster;
  const uint64_t wanted = places == 0 ? shape.places : places;
  uint64_t left = wanted;
  for (size_t i = 0; i < topology.levels(); ++i) {
    const topology::LevelSpec& from = topology.level(i);
    ClusterLevel level{from.name, 1, from.latency_ns, from.port_bytes_per_ns,
                       i <= topology.host_level()};
    level.size = static_cast<uint32_t>(std::min<uint64_t>(shape.sizes[i], left));
    if (left % level.size != 0) {
      return Status::invalid_argument(
          std::to_string(wanted) + " places do not fill nodes of level " + in_quotes(from.name) +
          " evenly, which have " + std::to_string(shape.sizes[i]) + " children each");
    }
    left /= level.size;
    if (i > 0) {
      level.bytes_per_ns = 0;
      for (const uint32_t node : shape.nodes[i - 1]) {
        const double uplink = topology.uplink_bytes_per_ns(i - 1, node);
        if (level.bytes_per_ns == 0 || uplink < level.bytes_per_ns) level.bytes_per_ns = uplink;
      }
    }
    cluster.levels.push_back(std::move(level));
  }
  if (left != 1) {
    return Status::invalid_argument(std::to_string(wanted) + " places are more than the " +
                                    std::to_string(shape.places) + " of the cluster's even part");
  }
  cluster.left_out = static_cast<uint32_t>(topology.leaves() - wanted);
  if (Status status = check(cluster); !status.ok()) return status;
  return cluster;
}

}  // namespace tutti::arrange
