#include "src/comm/device_streams.h"

#include <algorithm>
#include <utility>

#include "src/base/setting_values.h"
#include "src/comm/network_lanes.h"
#include "src/comm/vendor_calls.h"
#include "src/topology/device_graph.h"

namespace tutti::comm {

// Equal on all ranks, since it follows from their cards and from settings that must be equal.
Status DeviceStreams::check_devices() const {
  if (options_.engine == EngineWish::kHost) {
    return Status::unsupported("the engine of the communicator, or TUTTI_ENGINE, is the host");
  }
  if (options_.env->config->device_ring_bytes == 0) {
    return Status::unsupported("TUTTI_DEVICE_RING_BYTES is 0");
  }
  if (is_networked() && membership_.ranks() > kMostNetworkRanks) {
    return Status::unsupported(
        "the ranks are not all on one host, by shared memory, and more than " +
        std::to_string(kMostNetworkRanks));
  }
  const std::vector<Profile>& profiles = membership_.profiles();
  for (size_t rank = 0; rank < profiles.size(); ++rank) {
    const Profile& one = profiles[rank];
    if (one.device.empty()) {
      return Status::unsupported(name_of(static_cast<int>(rank)) +
                                 " had no current device when it made the communicator");
    }
    // A stream that waits for another one of its process holds up what shares its hardware queue.
    for (size_t other = 0; other < rank; ++other) {
      const bool same = profiles[other].device == one.device &&
                        profiles[other].process == one.process && profiles[other].host == one.host;
      if (!same) continue;
      return Status::unsupported("ranks " + std::to_string(other) + " and " + std::to_string(rank) +
                                 " share a process and its device");
    }
  }
  return {};
}

// Equal on all ranks, as above. Of several hosts each has an NCCL of its own ranks.
exec::VendorWish DeviceStreams::vendor_wish(const select::Model& model) const {
  const Config& config = *options_.env->config;
  exec::VendorWish wish;
  wish.file = config.nccl_library;
  wish.shares_devices = config.nccl_shares_devices;
  const group::GroupView& group = *membership_.group();
  const auto most_near = group.near_ranks(group.first_of_largest_host()).size();
  if (!VendorCalls::is_wanted(options_.engine, model, static_cast<int>(most_near))) {
    wish.refusal = Status::unsupported(
        "nobody asked for it when the communicator was made (TUTTI_ENGINE=nccl), and nobody has "
        "measured it among as many ranks (tutti tune)");
  } else if (membership_.ranks() == 1) {
    wish.refusal = Status::unsupported("the communicator has one rank");
  } else if (most_near == 1) {
    wish.refusal = Status::unsupported("no two ranks are on one host, by shared memory");
  }
  const std::vector<Profile>& profiles = membership_.profiles();
  for (size_t rank = 0; rank < profiles.size() && wish.refusal.ok(); ++rank) {
    for (size_t other = 0; other < rank; ++other) {
      const bool same = profiles[other].process == profiles[rank].process &&
                        profiles[other].host == profiles[rank].host;
      if (!same) continue;
      wish.refusal = Status::unsupported("ranks " + std::to_string(other) + " and " +
                                         std::to_string(rank) + " share a process");
    }
  }
  return wish;
}

Status DeviceStreams::open(Planner& planner, const MakeRecorder& make_recorder) {
  const std::vector<Profile>& profiles = membership_.profiles();
  if (std::none_of(profiles.begin(), profiles.end(),
                   [](const Profile& profile) { return !profile.device.empty(); })) {
    return {};
  }
  if (Status status = check_devices(); !status.ok()) {
    calls_ = std::make_unique<DeviceCalls>(std::move(status));
    return {};
  }
  Result<std::unique_ptr<CallRecorder>> recorder = make_recorder();
  if (!recorder.ok()) return recorder.status();
  numbers_.emplace(*membership_.group(), membership_.rank());
  const auto near = std::span(numbers_->ranks()).first(numbers_->near());
  rounds_.emplace(gather_, std::vector<int>(near.begin(), near.end()));
  exec::DeviceRankOptions options = rank_options(*recorder.value(), planner.planning().model);
  DeviceSurroundings around{.places = &places_,
                            .find_way = [this](bool are_apart) { return find_way(are_apart); },
                            .wish = options_.engine,
                            .agree = [this](const Status& mine) { return agree(*rounds_, mine); }};
  around.warn = [this](const std::string& text) {
    options_.env->log->warning("{}: {}", name_of(membership_.rank()), text);
  };
  if (is_networked()) around.numbers = numbers_->numbers();
  around.near = numbers_->near();
  Result<std::unique_ptr<DeviceCalls>> opened =
      DeviceCalls::open(device(), std::move(options), planner, std::move(recorder).value(), around);
  if (!opened.ok()) return opened.status();
  calls_ = std::move(opened).value();
  calls_->tell(*options_.env->log, name_of(membership_.rank()));
  return {};
}

exec::DeviceRankOptions DeviceStreams::rank_options(CallRecorder& recorder,
                                                    const select::Model& model) {
  exec::DeviceRankOptions options;
  static_cast<exec::DeviceGroup&>(options) = group_of(*numbers_, *rounds_);
  options.ranks = numbers_->ranks().size();
  options.needs_ring = is_networked();
  for (size_t number = 0; number < numbers_->near(); ++number) {
    const auto rank = static_cast<size_t>(numbers_->ranks()[number]);
    options.arenas.push_back(membership_.peers()[rank].arena);
  }
  options.ring_bytes = options_.env->config->device_ring_bytes;
  options.fused_bytes = is_networked() ? 0 : options_.env->config->mailbox_bytes;
  options.multicast = is_networked() ? MulticastWish::kOff : options_.env->config->multicast;
  options.least_ctas = options_.least_ctas;
  options.most_ctas = options_.most_ctas;
  options.engines_alone = options_.engine == EngineWish::kCopyEngine;
  options.vendor = vendor_wish(model);
  options.failure = [this] { return failure_.check(); };
  options.cause = [this] { return numbers_->with_numbers(failure_.cause()); };
  options.fail = [this, calls = &recorder](Status why, const diagnosis::Cause& cause) {
    const bool is_first = failure_.check().ok();
    failure_.fail(std::move(why), numbers_->with_ranks(cause));
    if (!is_first) return;
    host_calls_.be_quiet();  // it was a call on devices
    calls->dump(failure_.check());
  };
  options.report = [this](const std::string& text) { failure_.report(text); };
  options.inform = [this](const std::string& text) { options_.env->log->info("{}", text); };
  options.ran_late = [late = late_graphs()] { late->tell(); };
  options.slow_ns = options_.env->config->slow_ns;
  return options;
}

// Its functions live as long as what they are given.
exec::DeviceGroup DeviceStreams::group_of(const HostNumbers& numbers, HostRounds& rounds) const {
  exec::DeviceGroup group;
  group.rank = numbers.number_of(membership_.rank());
  for (size_t number = 0; number < numbers.near(); ++number) {
    const auto rank = static_cast<size_t>(numbers.ranks()[number]);
    group.links.push_back(membership_.peers()[rank].mapped);
    group.devices.push_back(membership_.profiles()[rank].device);
  }
  group.where = options_.place;
  group.peer_access = options_.env->config->peer_access;
  group.exchange = gather_;
  if (is_networked()) {
    group.exchange = [&rounds](const std::string& text) { return rounds.exchange(text); };
  }
  group.name_of = [this, &numbers](int number) { return name_of(numbers.rank_of(number)); };
  return group;
}

Result<DeviceParts> DeviceStreams::share(const WindowMemory& mine) {
  const HostNumbers numbers(*membership_.group(), membership_.rank());
  const auto near = std::span(numbers.ranks()).first(numbers.near());
  HostRounds rounds(gather_, std::vector<int>(near.begin(), near.end()));
  const auto shared =
      device().share(group_of(numbers, rounds), mine.on_device ? mine.base : nullptr,
                     mine.on_device ? mine.bytes : 0);
  if (Status agreed = agree(rounds, shared.status()); !agreed.ok()) return agreed;
  DeviceParts parts{shared.value(), std::vector<std::byte*>(membership_.profiles().size())};
  for (size_t number = 0; number < numbers.near(); ++number) {
    parts.begins[static_cast<size_t>(numbers.ranks()[number])] = shared.value()->ranges()[number];
  }
  return parts;
}

// A host knows of its own ranks' statuses, and has done all of its exchanges.
Status DeviceStreams::agree(HostRounds& rounds, const Status& mine, Code of_others) {
  constexpr size_t kMostBytes = 400;
  if (!is_networked()) return mine;
  if (Status ended = rounds.end(); !ended.ok()) return ended;
  const auto all =
      gather_(mine.ok() ? std::string() : std::string(mine.message().substr(0, kMostBytes)));
  if (!all.ok()) return all.status();
  for (size_t rank = 0; rank < all.value().size(); ++rank) {
    const std::string& problem = all.value()[rank];
    if (problem.empty()) continue;
    if (!mine.ok()) return mine;
    // Of a host's ranks all say whose problem it is.
    const bool is_named = problem.starts_with("rank ");
    return Status(of_others, is_named ? problem : name_of(static_cast<int>(rank)) + ": " + problem);
  }
  return {};
}

// Every rank says where its device is, then what it takes the longest way for: ranks in containers
// may see different hosts.
Result<select::DeviceWay> DeviceStreams::find_way(bool are_apart) {
  const auto addresses = gather_(device().bus_address_of(options_.place));
  if (!addresses.ok()) return addresses.status();
  std::vector<std::string> near;
  for (size_t number = 0; number < numbers_->near(); ++number) {
    near.push_back(addresses.value()[static_cast<size_t>(numbers_->ranks()[number])]);
  }
  const Config& config = *options_.env->config;
  const auto graph = topology::DeviceGraph::of_host(config);
  auto mine = are_apart ? select::DeviceWay::kBus : select::DeviceWay::kDirect;
  if (graph.ok()) {
    const bool is_told = !config.host_topology_file.empty();
    mine = select::longest_way(graph.value(), near, is_told, are_apart);
  }
  const auto all = gather_(std::to_string(static_cast<int>(mine)));
  if (!all.ok()) return all.status();
  for (const std::string& text : all.value()) {
    for (const auto way : {select::DeviceWay::kBus, select::DeviceWay::kBetweenNodes}) {
      if (text == std::to_string(static_cast<int>(way))) mine = std::max(mine, way);
    }
  }
  return mine;
}

Result<std::shared_ptr<const exec::PeerMemory>> DeviceStreams::share_all(std::byte* memory,
                                                                         uint64_t bytes) {
  using Shared = Result<std::shared_ptr<const exec::PeerMemory>>;
  Shared shared = calls_ != nullptr ? calls_->share(memory, bytes)
                                    : Shared(Status::unsupported("no rank has a device"));
  if (!shared.ok()) {
    options_.env->log->info("{}: registered device memory stays staged: {}",
                            name_of(membership_.rank()), shared.status().message());
  }
  return shared;
}

uint64_t DeviceStreams::add(const WindowMemory& mine, Status& failed) {
  auto shared = share_all(mine.base, mine.bytes);
  if (!shared.ok() && shared.status().code() != Code::kUnsupported) failed = shared.status();
  return places_.add(mine.base, mine.bytes, std::move(shared));
}

Status DeviceStreams::take_over(const DevicePlaces* before, KeptMemory& kept) {
  places_.go_on_behind(kept.last_device_handle);
  if (before == nullptr) return {};
  Status taken = places_.take_over(
      *before, kept.device_handles,
      [this](std::byte* memory, uint64_t bytes) { return share_all(memory, bytes); });
  if (taken.ok()) kept.registrations += static_cast<uint32_t>(kept.device_handles.size());
  return taken;
}

Status DeviceStreams::remove(uint64_t number) {
  if (places_.remove(number)) return {};
  return Status::invalid_usage("the handle is of no registration of this communicator");
}

Status DeviceStreams::check_rings() const {
  if (calls_ != nullptr) return calls_->refusal();
  return Status::unsupported("no rank had a current device when it made the communicator");
}

Status DeviceStreams::unsupported_reason(const Request& request, EngineWish asked) const {
  if (calls_ == nullptr) return check_rings();
  return calls_->unsupported_reason(request, engine_for(asked));
}

Status DeviceStreams::objection_to_network(const Request& request, EngineWish asked) const {
  if (calls_ == nullptr) return check_rings();
  return calls_->objection_to_network(request, engine_for(asked));
}

Status DeviceStreams::unsupported_transfers(std::span<const exec::Transfer> transfers,
                                            EngineWish asked) const {
  if (calls_ == nullptr) return check_rings();
  return calls_->unsupported_transfers(transfers, engine_for(asked));
}

Status DeviceStreams::objection_to_network(std::span<const exec::Transfer> transfers,
                                           EngineWish asked) const {
  if (calls_ == nullptr) return check_rings();
  return calls_->objection_to_network(transfers, engine_for(asked));
}

// A wish that is not followed is worth a warning, and so is a device whose calls, or reductions,
// all go by the host, though nobody asked for that: it is slower by orders of magnitude. Rank 0
// says so once, for all.
bool DeviceStreams::is_worth_a_warning(const HostWay& way) {
  if (options_.engine == EngineWish::kHost || options_.env->config->device_ring_bytes == 0) {
    return false;
  }
  if (!leaves_choice(options_.engine)) return true;
  const bool all = calls_ == nullptr || !calls_->refusal().ok();
  if (!(all || way.may) || membership_.rank() != 0) return false;
  return !std::exchange(warned_by_host_, true);
}

Status DeviceStreams::check_host_way(const HostWay& way) {
  if (way.asked == EngineWish::kHost) return {};
  const std::string why(way.why.message());
  if (!leaves_choice(way.asked)) {
    return Status::unsupported(way.operation + " on a stream of a device: the options of the " +
                               "call or communicator ask for the engine " +
                               std::string(engine_name(way.asked)) + ", but " + why);
  }
  bool warns = false;
  {
    const MutexLock lock(told_mutex_);
    if (!told_by_host_.insert(way.operation).second) return {};
    warns = is_worth_a_warning(way);
  }
  const std::string text = name_of(membership_.rank()) + ": " + way.operation +
                           " on streams of devices goes by the host, since " + why;
  Logger& log = *options_.env->log;
  if (warns) {
    log.warning("{}", text);
  } else {
    log.info("{}", text);
  }
  return {};
}

// Where all ranks' calls go by the host, options or not, there is nothing that could differ.
Status DeviceStreams::announce_host_way(const Request& request, EngineWish asked) {
  if (asked != EngineWish::kHost) return {};
  const bool by_streams = unsupported_reason(request, EngineWish::kAuto).ok() ||
                          objection_to_network(request, EngineWish::kAuto).ok();
  if (!by_streams) return {};
  return calls_->declare_by_host(request);
}

Status DeviceStreams::announce_host_way(std::span<const exec::Transfer> transfers,
                                        EngineWish asked) {
  const bool by_streams = unsupported_transfers(transfers, EngineWish::kAuto).ok() ||
                          objection_to_network(transfers, EngineWish::kAuto).ok();
  if (asked != EngineWish::kHost || !by_streams) return {};
  return calls_->declare_by_host(transfers);
}

Status DeviceStreams::check_place(const exec::StreamPlace& where) const {
  if (where.context == options_.place.context) return {};
  return Status::invalid_usage("the stream is of another device, or context, than " +
                               name_of(membership_.rank()) +
                               " had current when the communicator was made (" +
                               device().identity_of(options_.place) + "): pass one of that device");
}

std::string DeviceStreams::explain(const Request& request, bool in_place, EngineWish asked) {
  if (calls_ == nullptr) return "";
  return calls_->explain(request, in_place, asked, engine_for(asked)) + "\n";
}

std::string DeviceStreams::explain(std::span<const exec::Transfer> transfers, EngineWish asked) {
  if (calls_ == nullptr) return "";
  return calls_->explain(transfers, asked, engine_for(asked)) + "\n";
}

Result<exec::CallOrder*> DeviceStreams::order() {
  if (order_ == nullptr) {
    Result<std::shared_ptr<exec::CallOrder>> order = device().make_order();
    if (!order.ok()) return order.status();
    order_ = std::move(order).value();
  }
  return order_.get();
}

// Once for each slot that the process's calls take turns in: a card takes 0.1 ms and more for it.
// The crossing of a graph keeps it, too, so that it stays when others are let go of.
void DeviceStreams::announce(exec::NetworkCrossing& crossing) {
  exec::PinnedRange pinned = crossing.pinned();
  std::shared_ptr<const void>& known = announced_[pinned.data];
  if (known == nullptr) {
    known = membership_.announce({pinned.data, pinned.bytes}, std::move(pinned.owner));
  }
  crossing.keep(known);
}

void DeviceStreams::open_to_graphs(Communicator& communicator) {
  if (gate_ == nullptr) gate_ = std::make_shared<ReplayGate>(communicator, late_graphs());
}

void DeviceStreams::close_to_graphs(const std::string& warning) {
  if (late_graphs_ != nullptr) late_graphs_->begin(warning);
  if (gate_ != nullptr) gate_->close();
}

const std::shared_ptr<LateGraphs>& DeviceStreams::late_graphs() {
  if (late_graphs_ == nullptr) late_graphs_ = std::make_shared<LateGraphs>(*options_.env->log);
  return late_graphs_;
}

}  // namespace tutti::comm
