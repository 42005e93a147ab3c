// The parts of Membership about the network: the levels of the group, how its ranks come to one
// model, and what its transports say and are told.
#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/comm/card.h"
#include "src/comm/membership.h"
#include "src/group/levels.h"
#include "src/topology/affinity.h"
#include "src/topology/device_graph.h"

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

// A rank without a device is near to what its processors are near to, and transports know that.
void Membership::find_near_cards() {
  const Config& config = *options_.env->config;
  if (options_.bus_address.empty() || !config.rdma.allowed) return;
  const Result<topology::DeviceGraph> devices = topology::DeviceGraph::of_host(config);
  if (!devices.ok()) return;
  self_.near_cards = topology::nearest_networks(devices.value(), options_.bus_address);
}

// No rank is asked again: the cards hold what each has kept.
Status Membership::agree_on_model() {
  Result<AgreedModel> agreed =
      offers_.agree(model_cards_, named_hosts_, rank(), [this](int of) { return name_of(of); });
  if (!agreed.ok()) return agreed.status();
  model_ = std::move(agreed).value();
  model_cards_ = {};
  if (!model_.is_known && options_.inherited) {
    model_.model = *options_.inherited;
    model_.origin = "the model of the group that this one is part of";
    model_.is_known = true;
  }
  model_.model.codecs = codecs::agree(codec_times_);
  codec_times_ = {};
  for (const std::string& line : model_.warnings) options_.env->log->warning("{}", line);
  options_.env->log->info("rank {} of id {:016x}: algorithms are chosen by {}", rank(),
                          self_.communicator, model_.origin);
  return {};
}

// Every transport is a level: ranks that it connects share a node. The last level says only that
// the ranks are of one group, and is dropped where another one connects them; else connect() names
// the peer that no transport reaches.
Status Membership::find_levels() {
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
  if (Status status = add_described_levels(levels); !status.ok()) return status;
  Result<group::GroupPointer> made =
      group::GroupView::make(self_.communicator, self_.epoch, members_, std::move(levels));
  if (!made.ok()) return made.status();
  group_ = std::move(made).value();
  self_.path_to = [this](int peer) { return path_to(peer); };
  count_cores();
  return {};
}

// Those that messages will have: nothing is measured where nothing is encoded.
std::string Membership::measure_codecs() const {
  const Result<codecs::WireOption> option = codecs::parse_wire(options_.wire);
  if (!options_.env->config->measures_host || self_.ranks == 1 || !option.ok()) return "";
  return codecs::to_text(codecs::measure(option.value()));
}

// Described numbers come before measured ones, which hold what the links of that time were
// able to use.
transport::PathRates Membership::path_to(int peer) const {
  const size_t common = group_->common_level(rank(), peer);
  const group::Level& level = group_->level(common);
  transport::PathRates path{.latency_ns = level.latency_ns};
  for (size_t inside = 0; inside < common; ++inside) {
    const std::vector<double>& uplinks = group_->level(inside).uplinks;
    if (uplinks.empty()) continue;
    for (const int end : {rank(), peer}) {
      const double uplink = uplinks[static_cast<size_t>(end)];
      const bool is_thinner = path.bytes_per_ns == 0 || uplink < path.bytes_per_ns;
      if (uplink > 0 && is_thinner) path.bytes_per_ns = uplink;
    }
  }
  for (const select::LevelRates& measured : model_.model.levels) {
    if (measured.name != level.name) continue;
    if (path.latency_ns == 0) path.latency_ns = measured.latency_ns;
    if (measured.ns_per_byte > 0) path.seen_bytes_per_ns = 1 / measured.ns_per_byte;
  }
  return path;
}

Status Membership::open_level_sources() {
  for (const LevelSourceEntry& entry : options_.level_sources) {
    Result<std::unique_ptr<LevelSource>> made = entry.make(*options_.env->config);
    if (!made.ok()) return made.status();
    level_sources_.push_back(std::move(made).value());
  }
  level_cards_.resize(level_sources_.size());
  return {};
}

std::string Membership::write_level_cards() const {
  std::vector<std::string> cards;
  for (const auto& source : level_sources_) cards.push_back(source->card());
  return write_texts(cards);
}

Status Membership::read_level_cards(const std::string& peer, std::string_view text) {
  Result<std::vector<std::string>> cards = read_texts(text);
  if (!cards.ok() || cards.value().size() != level_cards_.size()) {
    return Status::remote_error(peer + " has other sources of levels than " + name_of(rank()) +
                                ": run the same version of Tutti on all ranks");
  }
  for (size_t source = 0; source < level_cards_.size(); ++source) {
    level_cards_[source].push_back(std::move(cards.value()[source]));
  }
  return {};
}

Result<DescribedLevels> Membership::describe(size_t source,
                                             std::span<const uint32_t> domains) const {
  return level_sources_[source]->levels({.rank = rank(),
                                         .hosts = named_hosts_,
                                         .cards = level_cards_[source],
                                         .domains = domains,
                                         .name = [this](int of) { return name_of(of); }});
}

// Described levels divide the networks between domains (group::divide).
Status Membership::add_described_levels(std::vector<group::Level>& levels) {
  std::vector<uint32_t> domains;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) domains.push_back(rank);
  auto end = levels.begin();
  for (; end != levels.end() && end->reach.map; ++end) domains = end->nodes;
  const bool has_network = end != levels.end() && end->reach.stream;
  std::vector<group::Level> networks(std::make_move_iterator(end),
                                     std::make_move_iterator(levels.end()));
  levels.erase(end, levels.end());
  for (size_t source = 0; source < level_sources_.size(); ++source) {
    Result<DescribedLevels> found = describe(source, domains);
    if (!found.ok()) return found.status();
    if (found.value().levels.empty() || !has_network) continue;
    if (!levels.empty()) group::narrow(levels.back().uplinks, found.value().uplinks);
    Result<std::vector<group::Level>> divided =
        group::divide(std::move(networks), std::move(found.value().levels));
    if (!divided.ok()) {
      return Status(divided.status().code(),
                    "what " + std::string(options_.level_sources[source].name) +
                        " says of the network: " + std::string(divided.status().message()));
    }
    networks = std::move(divided).value();
  }
  level_cards_ = {};
  named_hosts_ = {};
  for (group::Level& level : networks) levels.push_back(std::move(level));
  return {};
}

std::string Membership::transports() const {
  std::string names;
  for (const Profile& profile : profiles_) {
    const std::string& name = profile.transport;
    if (name.empty() || names.find(name) != std::string::npos) continue;
    names += (names.empty() ? "" : "+") + name;
  }
  return names.empty() ? "no link" : names;
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

void Membership::tell_what_moved() const {
  for (const auto& transport : transports_) {
    const auto moved = transport->moved();
    if (!moved) continue;
    options_.env->log->info(
        "rank {} of id {:016x} by {}: cards moved {} bytes, and the processor copied {}", rank(),
        self_.communicator, transport->name(), moved->by_hardware, moved->by_processor);
  }
}

}  // namespace tutti::comm
