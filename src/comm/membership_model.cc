// The parts of Membership about the network: the levels of the group, how its ranks come to one
// model, and what its transports say and are told.
#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/comm/membership.h"
#include "src/group/levels.h"

namespace tutti::comm {
namespace {

// Rates are kept by names of levels, so those of two networks differ.
std::string name_of_level(const transport::Transport& transport,
                          std::span<const group::Level> others) {
  std::string name(transport.level());
  const bool is_taken = std::any_of(others.begin(), others.end(),
                                    [&](const group::Level& other) { return other.name == name; });
  return is_taken ? name + "-" + std::string(transport.name()) : name;
}

}  // namespace

// No rank is asked again: the cards hold what each has kept.
Status Membership::agree_on_model() {
  std::vector<std::string> hosts;
  for (const ClusterCard& card : cluster_cards_) hosts.push_back(card.host);
  Result<AgreedModel> agreed =
      offers_.agree(model_cards_, hosts, rank(), [this](int of) { return name_of(of); });
  if (!agreed.ok()) return agreed.status();
  model_ = std::move(agreed).value();
  model_cards_ = {};
  if (!model_.is_known && options_.inherited) {
    model_.model = *options_.inherited;
    model_.origin = "the model of the group that this one is part of";
    model_.is_known = true;
  }
  for (const std::string& line : model_.warnings) options_.env->log->warning("{}", line);
  options_.env->log->info("rank {} of id {:016x}: algorithms are chosen by {}", rank(),
                          self_.communicator, model_.origin);
  return {};
}

// Every transport is a level: ranks that it connects share a node. The last level says only that
// the ranks are of one group, and is dropped where another one connects them; else connect() names
// the peer that no transport reaches.
Status Membership::find_levels() {
  for (int rank = 0; rank < ranks(); ++rank) {
    const ClusterCard& card = cluster_cards_[static_cast<size_t>(rank)];
    Status status = cluster_.agree(card, name_of(this->rank()), name_of(rank));
    if (!status.ok()) return status;
  }
  std::vector<std::vector<std::string>> neighborhoods;
  std::vector<group::Level> levels;
  for (size_t i = 0; i < transports_.size(); ++i) {
    std::vector<std::string> texts;
    for (const auto& card : cards_) texts.push_back(transports_[i]->neighborhood(card[i]));
    // It connects nobody, such as cards that no host has.
    if (std::all_of(texts.begin(), texts.end(), [](const auto& text) { return text.empty(); })) {
      continue;
    }
    neighborhoods.push_back(std::move(texts));
    const bool maps = transports_[i]->maps_memory();
    group::Level& level = levels.emplace_back();
    level.name = name_of_level(*transports_[i], levels);
    level.reach = {.map = maps, .stream = !maps};
    level.transport = transports_[i]->name();
  }
  neighborhoods.emplace_back(static_cast<size_t>(self_.ranks), "all");
  levels.emplace_back().name = "group";
  const auto nodes = group::nodes_of(neighborhoods, static_cast<size_t>(self_.ranks));
  for (size_t i = 0; i < levels.size(); ++i) levels[i].nodes = nodes[i];
  if (levels.size() > 1 && nodes[levels.size() - 2] == nodes.back()) levels.pop_back();
  if (Status status = add_cluster_levels(levels); !status.ok()) return status;
  Result<group::GroupPointer> made =
      group::GroupView::make(self_.communicator, self_.epoch, members_, std::move(levels));
  if (!made.ok()) return made.status();
  group_ = std::move(made).value();
  count_cores();
  return {};
}

// The levels of the cluster divide the networks between domains (group::divide).
Status Membership::add_cluster_levels(std::vector<group::Level>& levels) {
  std::vector<uint32_t> domains;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) domains.push_back(rank);
  auto end = levels.begin();
  for (; end != levels.end() && end->reach.map; ++end) domains = end->nodes;
  Result<ClusterLevels> found = cluster_.levels(cluster_cards_, domains);
  if (!found.ok()) return found.status();
  cluster_cards_ = {};
  const bool has_network = end != levels.end() && end->reach.stream;
  if (found.value().levels.empty() || !has_network) return {};
  if (end != levels.begin()) (end - 1)->uplinks = std::move(found.value().uplinks);
  std::vector<group::Level> networks(std::make_move_iterator(end),
                                     std::make_move_iterator(levels.end()));
  levels.erase(end, levels.end());
  Result<std::vector<group::Level>> divided =
      group::divide(std::move(networks), std::move(found.value().levels));
  if (!divided.ok()) {
    return Status(divided.status().code(),
                  "TUTTI_TOPOLOGY: " + std::string(divided.status().message()));
  }
  for (group::Level& level : divided.value()) levels.push_back(std::move(level));
  return {};
}

// A sentence for each transport that one of the two cannot use at all.
std::string Membership::why_unreached(int peer) const {
  std::string text;
  for (size_t i = 0; i < transports_.size(); ++i) {
    for (const int of : {rank(), peer}) {
      const std::string reason = transports_[i]->absence(cards_[static_cast<size_t>(of)][i]);
      if (reason.empty()) continue;
      text += "; " + std::string(transports_[i]->name()) + " at rank " + std::to_string(of) + ": " +
              reason;
    }
  }
  return text;
}

std::shared_ptr<const void> Membership::announce(transport::Buffer memory,
                                                 std::shared_ptr<const void> owner) const {
  struct AnnouncedMemory {
    std::shared_ptr<const void> owner;
    std::vector<std::shared_ptr<const void>> announcements;  // these end before it
  };
  auto announced = std::make_shared<AnnouncedMemory>();
  announced->owner = std::move(owner);
  if (memory.bytes == 0) return announced;
  for (const auto& transport : transports_) {
    Result<std::shared_ptr<const void>> told = transport->announce(memory);
    if (told.ok()) {
      announced->announcements.push_back(std::move(told).value());
    } else {
      options_.env->log->warning(
          "rank {}: messages by {} from and to registered memory are copied: {}", self_.rank,
          transport->name(), told.status().message());
    }
  }
  return announced;
}

}  // namespace tutti::comm
