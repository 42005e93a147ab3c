#include "src/sim/network.h"

#include <algorithm>
#include <utility>

#include "src/group/members.h"

namespace tutti::sim {

namespace {

Status check(const std::vector<TreeLevel>& levels, size_t ranks) {
  if (levels.empty() || levels.size() > Network::kMostLevels) {
    return Status::invalid_argument("a network has 1 to " + std::to_string(Network::kMostLevels) +
                                    " levels, not " + std::to_string(levels.size()));
  }
  bool below_maps = true;
  for (const TreeLevel& level : levels) {
    if (level.nodes.size() != ranks) {
      return Status::invalid_argument("level '" + level.name + "' places " +
                                      std::to_string(level.nodes.size()) + " ranks of " +
                                      std::to_string(ranks));
    }
    if (level.maps && !below_maps) {
      return Status::invalid_argument("level '" + level.name +
                                      "' maps memory, but a level below it does not");
    }
    if (level.shared_bytes_per_ns > 0 && !level.maps) {
      return Status::invalid_argument("level '" + level.name +
                                      "' shares a medium, but does not map memory");
    }
    if (!(level.latency_ns >= 0)) {
      return Status::invalid_argument("the latency of level '" + level.name + "' is negative");
    }
    below_maps = level.maps;
  }
  return {};
}

Result<group::GroupPointer> group_of(const std::vector<TreeLevel>& levels, size_t ranks) {
  std::vector<group::Level> made;
  for (const TreeLevel& level : levels) {
    made.push_back({level.name,
                    {.map = level.maps, .stream = !level.maps},
                    level.nodes,
                    level.latency_ns,
                    {}});
    if (level.uplinks.empty()) continue;
    for (const uint32_t node : level.nodes) {
      const bool is_known = node < level.uplinks.size();  // make() says of others that they are not
      made.back().uplinks.push_back(is_known ? level.uplinks[node] : 0);
    }
  }
  return group::GroupView::make(0, 0, group::placeholder_members(ranks), std::move(made));
}

}  // namespace

Result<Network> Network::make(std::vector<TreeLevel> levels, std::vector<double> ports) {
  if (ports.empty()) return Status::invalid_argument("a network without ranks");
  if (Status status = check(levels, ports.size()); !status.ok()) return status;
  Result<group::GroupPointer> group = group_of(levels, ports.size());
  if (!group.ok()) return group.status();
  Network network;
  network.group_ = std::move(group).value();
  for (size_t i = 0; i < levels.size(); ++i) {
    if (network.group_->level(i).nodes == levels[i].nodes) continue;
    return Status::invalid_argument("the nodes of level '" + levels[i].name +
                                    "' are not numbered in the order of their first ranks");
  }
  network.levels_ = std::move(levels);
  for (size_t i = 0; i < network.levels_.size(); ++i) {
    if (network.levels_[i].maps) network.host_level_ = i;
  }
  for (size_t i = 0; i <= network.levels_.size(); ++i) {
    const bool is_root = i == network.levels_.size();
    const auto count = i == 0 ? static_cast<uint32_t>(ports.size()) : network.group_->nodes(i - 1);
    const std::vector<double>& capacities = i == 0 ? ports : network.levels_[i - 1].uplinks;
    if (!capacities.empty() && capacities.size() != count) {
      return Status::invalid_argument("level '" + network.levels_[i - 1].name + "' has " +
                                      std::to_string(count) + " nodes, and uplinks for " +
                                      std::to_string(capacities.size()));
    }
    if (!is_root) network.add_links(i, count, capacities);
  }
  return network;
}

void Network::add_links(size_t level, uint32_t count, const std::vector<double>& capacities) {
  const auto add = [&](LinkWay way, uint32_t owners, size_t owner_level,
                       const std::function<double(uint32_t)>& capacity) {
    const auto first = static_cast<uint32_t>(links_.size());
    for (uint32_t i = 0; i < owners; ++i) {
      links_.push_back({way, static_cast<uint8_t>(owner_level), i, 0, capacity(i)});
    }
    return first;
  };
  const auto port = [&](uint32_t i) { return capacities.empty() ? 0 : capacities[i]; };
  first_up_.push_back(add(LinkWay::kUp, count, level, port));
  first_down_.push_back(add(LinkWay::kDown, count, level, port));
  const double shared = levels_[level].shared_bytes_per_ns;
  first_shared_.push_back(kNone);
  if (level != host_level_ || shared == 0) return;
  first_shared_.back() =
      add(LinkWay::kShared, group_->nodes(level), level + 1, [&](uint32_t) { return shared; });
}

uint32_t Network::link_id(LinkWay way, size_t level, uint32_t node, uint32_t path) const {
  const uint32_t first = (way == LinkWay::kUp ? first_up_ : first_down_)[level];
  return first + (level == 0 ? node : node * paths_ + path);
}

uint32_t Network::medium_of(int rank) const {
  if (host_level_ >= levels_.size() || first_shared_[host_level_] == kNone) return kNone;
  return first_shared_[host_level_] + node_of(host_level_, rank);
}

size_t Network::route(int source, int target, const std::function<void(uint32_t)>& link,
                      const PathPicker& pick) const {
  const size_t turn = group_->common_level(source, target);
  if (levels_[turn].maps) return turn;
  std::vector<uint32_t> paths(turn + 1, 0);
  for (size_t i = 1; i <= turn && pick; ++i) paths[i] = pick(i, owner(i, source), owner(i, target));
  for (size_t i = 0; i <= turn; ++i) link(link_id(LinkWay::kUp, i, owner(i, source), paths[i]));
  for (size_t i = turn + 1; i-- > 0;) {
    link(link_id(LinkWay::kDown, i, owner(i, target), paths[i]));
  }
  return turn;
}

double Network::latency_ns(int source, int target) const {
  double delay = 0;
  const size_t turn = route(source, target, [&](uint32_t link) { delay += links_[link].delay_ns; });
  return levels_[turn].latency_ns + delay;
}

std::string Network::describe(uint32_t id) const {
  const NetworkLink& link = links_[id];
  static constexpr const char* kWords[] = {"up from ", "down to ", "memory of "};
  std::string name = kWords[static_cast<int>(link.way)] + std::string(owner_name(link.level)) +
                     " " + std::to_string(link.node);
  const bool is_part = paths_ > 1 && link.level > 0 && link.way != LinkWay::kShared;
  return is_part ? name + " by path " + std::to_string(link.path) : name;
}

Status Network::fail(const LinkFault& fault) {
  if (fault.level >= levels_.size()) {
    return Status::invalid_argument("level " + std::to_string(fault.level) +
                                    " has no links: the last one has one node");
  }
  const uint32_t count =
      fault.level == 0 ? static_cast<uint32_t>(ranks()) : group_->nodes(fault.level - 1);
  const std::string name = std::string(owner_name(fault.level)) + " " + std::to_string(fault.node);
  if (fault.node >= count) {
    return Status::invalid_argument("there is no " + name + ": there are " + std::to_string(count));
  }
  if (!(fault.factor > 0 && fault.factor <= 1) || !(fault.loss >= 0 && fault.loss < 1) ||
      !(fault.delay_ns >= 0)) {
    return Status::invalid_argument("the link of " + name +
                                    " can have a factor above 0 up to 1, a loss from 0 to below 1 "
                                    "and a delay that is not negative");
  }
  const uint32_t paths = fault.level == 0 ? 1 : paths_;
  for (uint32_t i = 0; i < 2 * paths; ++i) {
    const LinkWay way = i < paths ? LinkWay::kUp : LinkWay::kDown;
    NetworkLink& link = links_[link_id(way, fault.level, fault.node, i % paths)];
    if (fault.factor < 1 && link.bytes_per_ns == 0) {
      return Status::invalid_argument("the link of " + name +
                                      " has no bandwidth that a fault could reduce");
    }
    link.bytes_per_ns *= fault.factor;
    link.delay_ns += fault.delay_ns;
    link.loss = 1 - (1 - link.loss) * (1 - fault.loss);
    link.dead_from = std::min(link.dead_from, fault.dead_from);
  }
  sound_ = false;
  return {};
}

Status Network::divide_uplinks(uint32_t paths, PathRule rule) {
  constexpr uint32_t kMostPaths = 1024;
  if (paths == 0 || paths > kMostPaths) {
    return Status::invalid_argument("an uplink can be 1 to " + std::to_string(kMostPaths) +
                                    " links, not " + std::to_string(paths));
  }
  if (!sound_ || paths_ > 1) {
    return Status::invalid_usage("uplinks are divided once, before anything is wrong with them");
  }
  if (paths == 1 || rule == PathRule::kSprayed) return {};
  std::vector<NetworkLink> divided;
  std::vector<uint32_t> place(links_.size());  // of the first part of each link
  for (size_t i = 0; i < links_.size(); ++i) {
    NetworkLink link = links_[i];
    place[i] = static_cast<uint32_t>(divided.size());
    const uint32_t parts = link.level == 0 || link.way == LinkWay::kShared ? 1 : paths;
    link.bytes_per_ns /= parts;
    for (link.path = 0; link.path < parts; ++link.path) divided.push_back(link);
  }
  for (auto* firsts : {&first_up_, &first_down_, &first_shared_}) {
    for (uint32_t& first : *firsts) {
      if (first < place.size()) first = place[first];
    }
  }
  links_ = std::move(divided);
  paths_ = paths;
  path_rule_ = rule;
  sound_ = false;  // connections of equal ranks take different links
  return {};
}

Result<Network> uniform_network(const std::vector<UniformLevel>& levels) {
  constexpr uint64_t kMostRanks = uint64_t{1} << 22;
  uint64_t ranks = 1;
  for (const UniformLevel& level : levels) {
    if (level.children == 0 || ranks * level.children > kMostRanks) {
      return Status::invalid_argument(
          "level '" + level.name + "' with " + std::to_string(level.children) +
          " children: a network has 1 to " + std::to_string(kMostRanks) + " ranks");
    }
    ranks *= level.children;
  }
  std::vector<TreeLevel> made;
  uint64_t leaves = 1;
  for (size_t i = 0; i < levels.size(); ++i) {
    const UniformLevel& from = levels[i];
    leaves *= from.children;
    TreeLevel level{.name = from.name,
                    .latency_ns = from.latency_ns,
                    .maps = from.maps,
                    .nodes = {},
                    .uplinks = {},
                    .shared_bytes_per_ns = from.shared_bytes_per_ns};
    for (uint64_t rank = 0; rank < ranks; ++rank) {
      level.nodes.push_back(static_cast<uint32_t>(rank / leaves));
    }
    const double uplink = i + 1 < levels.size() ? levels[i + 1].port_bytes_per_ns : 0;
    level.uplinks.assign(ranks / leaves, uplink);
    made.push_back(std::move(level));
  }
  const double port = levels.empty() ? 0 : levels[0].port_bytes_per_ns;
  return Network::make(std::move(made), std::vector<double>(ranks, port));
}

}  // namespace tutti::sim
