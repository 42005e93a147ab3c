// The parts of Communicator about calls on device memory that its streams run by themselves.
#include <algorithm>
#include <utility>

#include "src/base/setting_values.h"
#include "src/comm/communicator.h"
#include "src/topology/device_graph.h"

namespace tutti::comm {

// Equal on all ranks, since it follows from their cards and from settings that must be equal.
Status Communicator::check_devices() const {
  if (options_.membership.engine == EngineWish::kHost) {
    return Status::unsupported("the engine of the communicator, or TUTTI_ENGINE, is the host");
  }
  if (config().device_ring_bytes == 0) {
    return Status::unsupported("TUTTI_DEVICE_RING_BYTES is 0");
  }
  if (membership_->domain_size() != ranks()) {
    return Status::unsupported("the ranks are not all on one host, by shared memory");
  }
  const std::vector<Profile>& profiles = membership_->profiles();
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

Status Communicator::open_device() {
  const std::vector<Profile>& profiles = membership_->profiles();
  if (std::none_of(profiles.begin(), profiles.end(),
                   [](const Profile& profile) { return !profile.device.empty(); })) {
    return {};
  }
  if (Status status = check_devices(); !status.ok()) {
    device_calls_ = std::make_unique<DeviceCalls>(std::move(status));
    return {};
  }
  Result<std::unique_ptr<CallRecorder>> recorder = make_recorder();
  if (!recorder.ok()) return recorder.status();
  exec::DeviceRankOptions options;
  options.rank = rank();
  for (const exec::Peer& peer : membership_->peers()) {
    options.arenas.push_back(peer.arena);
    options.links.push_back(peer.mapped);
  }
  for (const Profile& profile : profiles) options.devices.push_back(profile.device);
  options.where = options_.device_place;
  options.ring_bytes = config().device_ring_bytes;
  options.peer_access = config().peer_access;
  options.least_ctas = options_.least_ctas;
  options.most_ctas = options_.most_ctas;
  options.engines_alone = options_.membership.engine == EngineWish::kCopyEngine;
  options.exchange = [this](const std::string& mine) { return gather_texts(mine); };
  options.failure = [this] { return failure_->check(); };
  options.cause = [this] { return failure_->cause(); };
  options.fail = [this, calls = recorder.value().get()](Status why, const diagnosis::Cause& cause) {
    const bool is_first = failure_->check().ok();
    failure_->fail(std::move(why), cause);
    if (!is_first) return;
    calls_->be_quiet();  // it was a call on devices
    calls->dump(failure_->check());
  };
  options.report = [this](const std::string& text) { failure_->report(text); };
  options.slow_ns = config().slow_ns;
  options.name_of = [this](int rank) { return name_of(rank); };
  Result<std::unique_ptr<DeviceCalls>> opened = DeviceCalls::open(
      *options_.device, std::move(options), planner_options(), std::move(recorder).value(),
      {&places_, [this](bool are_apart) { return find_device_way(are_apart); }});
  if (!opened.ok()) return opened.status();
  device_calls_ = std::move(opened).value();
  device_calls_->set_options(this->options());
  device_calls_->tell(*options_.membership.env->log, name_of(rank()));
  return {};
}

// Every rank says where its device is, then what it takes the longest way for: ranks in containers
// may see different hosts.
Result<select::DeviceWay> Communicator::find_device_way(bool are_apart) {
  const auto addresses = gather_texts(options_.device->bus_address_of(options_.device_place));
  if (!addresses.ok()) return addresses.status();
  const std::string& file = config().host_topology_file;
  const auto graph = topology::DeviceGraph::of_host(config());
  auto mine = are_apart ? select::DeviceWay::kBus : select::DeviceWay::kDirect;
  if (graph.ok()) {
    mine = select::longest_way(graph.value(), addresses.value(), !file.empty(), are_apart);
  }
  const auto all = gather_texts(std::to_string(static_cast<int>(mine)));
  if (!all.ok()) return all.status();
  for (const std::string& text : all.value()) {
    for (const auto way : {select::DeviceWay::kBus, select::DeviceWay::kBetweenNodes}) {
      if (text == std::to_string(static_cast<int>(way))) mine = std::max(mine, way);
    }
  }
  return mine;
}

Result<uint64_t> Communicator::add_registration(const WindowMemory& mine) {
  Status failed;
  const auto on_device = [&](const WindowMemory& memory) {
    using Shared = Result<std::shared_ptr<const exec::PeerMemory>>;
    Shared shared = device_calls_ != nullptr ? device_calls_->share(memory.base, memory.bytes)
                                             : Shared(Status::unsupported("no rank has a device"));
    if (!shared.ok() && shared.status().code() != Code::kUnsupported) failed = shared.status();
    if (!shared.ok()) {
      options_.membership.env->log->info("{}: registered device memory stays staged: {}",
                                         name_of(rank()), shared.status().message());
    }
    return places_.add(memory.base, memory.bytes, std::move(shared));
  };
  Result<uint64_t> number = memory_->add(
      mine, [this](const std::string& text) { return gather_texts(text); }, on_device);
  if (!number.ok() || failed.ok()) return number;
  places_.remove(number.value());
  return failed;
}

Status Communicator::remove_registration(uint64_t number) {
  if (number < DevicePlaces::kFirstHandle) return memory_->remove(number);
  if (places_.remove(number)) return {};
  return Status::invalid_usage("the handle is of no registration of this communicator");
}

bool Communicator::takes_on_device(const Request& request, EngineWish asked) const {
  return device_calls_ != nullptr && device_calls_->takes(request, engine_for(asked));
}

bool Communicator::takes_transfers_on_device(EngineWish asked) const {
  return device_calls_ != nullptr && device_calls_->objection_to_transfers(engine_for(asked)).ok();
}

// A wish that is not followed is worth a warning, and so is a device whose calls, or reductions,
// all go by the host, though nobody asked for that: it is slower by orders of magnitude. Rank 0
// says so once, for all.
bool Communicator::is_worth_a_warning(const Request* request) {
  const EngineWish wish = options_.membership.engine;
  if (wish == EngineWish::kHost || config().device_ring_bytes == 0) return false;
  if (wish != EngineWish::kAuto) return true;
  const bool all = device_calls_ == nullptr || !device_calls_->refusal().ok();
  const bool reduces = request != nullptr && DeviceCalls::may_take(*request) && !all &&
                       !device_calls_->objection(*request, wish).ok();
  if (!(all || reduces) || rank() != 0) return false;
  return !std::exchange(warned_by_host_, true);
}

Status Communicator::check_by_host(const std::string& operation, const Request* request,
                                   EngineWish asked) {
  if (asked == EngineWish::kHost) return {};
  const std::string why = reason_by_host(request, asked);
  if (asked != EngineWish::kAuto) {
    return Status::unsupported(operation + " on a stream of a device: the options of the call or " +
                               "communicator ask for the engine " +
                               std::string(engine_name(asked)) + ", but " + why);
  }
  bool warns = false;
  {
    const std::lock_guard lock(told_mutex_);
    if (!told_by_host_.insert(operation).second) return {};
    warns = is_worth_a_warning(request);
  }
  const std::string text =
      name_of(rank()) + ": " + operation + " on streams of devices goes by the host, since " + why;
  Logger& log = *options_.membership.env->log;
  if (warns) {
    log.warning("{}", text);
  } else {
    log.info("{}", text);
  }
  return {};
}

// Where all ranks' calls go by the host, options or not, there is nothing that could differ.
Status Communicator::declare_by_host(const Request& request) {
  if (!takes_on_device(request, EngineWish::kAuto)) return {};
  return device_calls_->declare_by_host(request);
}

Status Communicator::declare_by_host(std::span<const exec::Transfer> transfers) {
  if (!takes_transfers_on_device(EngineWish::kAuto)) return {};
  return device_calls_->declare_by_host(transfers);
}

std::string Communicator::reason_by_host(const Request* request, EngineWish asked) const {
  if (device_calls_ == nullptr) return "no rank had a current device when it made the communicator";
  if (!device_calls_->refusal().ok()) return std::string(device_calls_->refusal().message());
  const EngineWish engine = engine_for(asked);
  const Status why = request != nullptr ? device_calls_->objection(*request, engine)
                                        : device_calls_->objection_to_transfers(engine);
  return std::string(why.message());
}

Status Communicator::open_order() {
  if (call_order_ != nullptr) return {};
  Result<std::shared_ptr<exec::CallOrder>> order = options_.device->make_order();
  if (!order.ok()) return order.status();
  call_order_ = std::move(order).value();
  return {};
}

void Communicator::open_to_graphs() {
  if (gate_ == nullptr) gate_ = std::make_shared<ReplayGate>(*this);
}

void Communicator::close_to_graphs() {
  if (gate_ != nullptr) gate_->close();
}

// The ring and the counters are known in the context of the rank's device only.
Status Communicator::check_stream(const exec::StreamPlace& where) const {
  if (where.context == options_.device_place.context) return {};
  return Status::invalid_usage("the stream is of another device, or context, than " +
                               name_of(rank()) + " had current when the communicator was made (" +
                               options_.device->identity_of(options_.device_place) +
                               "): pass one of that device");
}

Status Communicator::enqueue(const Request& request, const exec::StreamPlace& where,
                             std::function<void(const Status&)> over) {
  if (Status status = check_stream(where); !status.ok()) return status;
  return device_calls_->enqueue(request, collectives_->is_in_place(request), where,
                                collectives_->deadline_from_now(request.extras), std::move(over));
}

Status Communicator::enqueue(std::span<const exec::Transfer> transfers,
                             std::vector<exec::StreamPlace> where, uint64_t timeout_ns,
                             std::function<void(const Status&)> over) {
  for (const exec::StreamPlace& one : where) {
    if (Status status = check_stream(one); !status.ok()) return status;
  }
  return device_calls_->enqueue(transfers, std::move(where), frame_->deadline_of(timeout_ns),
                                std::move(over));
}

}  // namespace tutti::comm
