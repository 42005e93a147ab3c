#include "src/comm/cluster.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "src/base/words.h"
#include "src/comm/card.h"
#include "src/group/levels.h"
#include "src/topology/cluster_file.h"

namespace tutti::comm {
namespace {

std::string said_by(const std::string& rank, const ClusterCard& card) {
  if (card.fingerprint.empty()) return rank + " has no TUTTI_TOPOLOGY";
  return rank + " has TUTTI_TOPOLOGY=" + card.file + " (fingerprint " + card.fingerprint + ")";
}

// By its whole name, else by what stands before the first dot, which cluster files mostly hold.
std::optional<uint32_t> find_host(const topology::Topology& topology, std::string_view name) {
  const auto whole = topology.find_host(name);
  return whole ? whole : topology.find_host(name.substr(0, name.find('.')));
}

std::string some_hosts(const topology::Topology& topology) {
  constexpr uint32_t kShown = 4;
  const uint32_t hosts = topology.nodes(topology.host_level());
  std::string text;
  for (uint32_t host = 0; host < std::min(hosts, kShown); ++host) {
    text += (host == 0 ? "" : ", ") + std::string(topology.node_name(topology.host_level(), host));
  }
  return text + (hosts > kShown ? " and " + std::to_string(hosts - kShown) + " more" : "");
}

}  // namespace

std::string to_text(const ClusterCard& card) {
  const std::string texts[] = {card.file, card.fingerprint};
  return write_texts(texts);
}

ClusterCard read_cluster_card(std::string_view text) {
  Result<std::vector<std::string>> texts = read_texts(text);
  if (!texts.ok() || texts.value().size() != 2) return {};
  std::vector<std::string>& read = texts.value();
  return {std::move(read[0]), std::move(read[1])};
}

Result<Cluster> Cluster::read(const Config& config) {
  Cluster made;
  if (config.topology_file.empty()) return made;
  Result<topology::Topology> topology = topology::read_cluster_file(config.topology_file);
  if (!topology.ok()) {
    return Status(topology.status().code(),
                  "TUTTI_TOPOLOGY: " + std::string(topology.status().message()));
  }
  const topology::Topology& found = topology.value();
  if (found.node_name(found.host_level(), 0).empty()) {
    return Status::invalid_usage("TUTTI_TOPOLOGY=" + config.topology_file +
                                 " gives its hosts no names, so nobody knows which of them this "
                                 "is; name them, or unset it");
  }
  made.card_.file = config.topology_file;
  made.card_.fingerprint = fmt::format("{:016x}", topology::fingerprint(found));
  made.topology_ = std::move(topology).value();
  return made;
}

Status Cluster::agree(const ClusterCard& peer, const std::string& mine,
                      const std::string& theirs) const {
  if (peer.fingerprint == card_.fingerprint) return {};
  return Status::invalid_usage(said_by(theirs, peer) + ", " + said_by(mine, card_) +
                               ": they describe different clusters; give all ranks one file");
}

Result<std::vector<uint32_t>> Cluster::hosts_of(std::span<const std::string> names) const {
  std::map<std::string_view, uint32_t> known;  // a job has many ranks on few hosts
  std::vector<uint32_t> hosts;
  for (size_t rank = 0; rank < names.size(); ++rank) {
    const auto [entry, is_new] = known.try_emplace(names[rank], 0);
    if (is_new) {
      const auto found = find_host(*topology_, names[rank]);
      if (!found) {
        return Status::invalid_usage(
            "rank " + std::to_string(rank) + " is on a host with the name '" + names[rank] +
            "', which TUTTI_TOPOLOGY=" + card_.file + " does not hold (it has " +
            some_hosts(*topology_) + "); add the host there, or unset TUTTI_TOPOLOGY on all ranks");
      }
      entry->second = *found;
    }
    hosts.push_back(entry->second);
  }
  return hosts;
}

group::Level Cluster::level_of(size_t index, std::span<const uint32_t> hosts) const {
  const topology::LevelSpec& spec = topology_->level(index);
  group::Level level{spec.name, {.map = false, .stream = true}, {}, spec.latency_ns};
  const bool is_root = index + 1 == topology_->levels();
  for (const uint32_t host : hosts) {
    const uint32_t leaf = topology_->leaves_of(topology_->host_level(), host).first;
    const uint32_t node = topology_->node_of(index, leaf);
    level.nodes.push_back(node);
    level.uplinks.push_back(is_root ? 0 : topology_->uplink_bytes_per_ns(index, node));
  }
  return level;
}

Result<DescribedLevels> Cluster::levels(std::span<const std::string> names,
                                        std::span<const uint32_t> domains) const {
  DescribedLevels result;
  if (!topology_) return result;
  const Result<std::vector<uint32_t>> hosts = hosts_of(names);
  if (!hosts.ok()) return hosts.status();
  std::map<uint32_t, size_t> first_of;  // of each domain, the first rank
  for (size_t rank = 0; rank < domains.size(); ++rank) {
    const size_t first = first_of.try_emplace(domains[rank], rank).first->second;
    if (hosts.value()[first] == hosts.value()[rank]) continue;
    return Status::invalid_usage("ranks " + std::to_string(first) + " and " + std::to_string(rank) +
                                 " share memory, but TUTTI_TOPOLOGY=" + card_.file + " has '" +
                                 names[first] + "' and '" + names[rank] + "' as two hosts");
  }
  result.uplinks.assign(hosts.value().size(), 0);
  size_t inside = first_of.size();
  for (size_t i = topology_->host_level(); i < topology_->levels(); ++i) {
    group::Level level = level_of(i, hosts.value());
    // Nodes are unions of those inside, so where there are as many they are the same ones.
    const size_t nodes = std::set<uint32_t>(level.nodes.begin(), level.nodes.end()).size();
    if (nodes < inside) {
      result.levels.push_back(std::move(level));
    } else {
      group::narrow(result.levels.empty() ? result.uplinks : result.levels.back().uplinks,
                    level.uplinks);
    }
    inside = nodes;
  }
  return result;
}

}  // namespace tutti::comm
