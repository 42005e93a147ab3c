#include "src/api/create.h"

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "src/api/device.h"
#include "src/base/caught.h"
#include "src/bootstrap/group.h"
#include "src/bootstrap/host.h"
#include "src/bootstrap/place.h"
#include "src/bootstrap/rendezvous.h"
#include "src/codecs/wire.h"
#include "src/registry/algorithms.h"
#include "src/registry/level_sources.h"
#include "src/registry/transports.h"

namespace tutti::api {

Result<bootstrap::Interface> choose_interface(const Config& config,
                                              const std::vector<bootstrap::Address>& places) {
  const auto all_places = [&] {
    std::vector<bootstrap::Address> all = bootstrap::named_places(config, process_environment());
    all.insert(all.end(), places.begin(), places.end());
    return all;
  };
  Result<std::vector<bootstrap::Interface>> own =
      bootstrap::announced_interfaces(config, all_places);
  if (!own.ok()) return own.status();
  return std::move(own).value().front();
}

namespace {

Result<std::unique_ptr<comm::Communicator>> make(Process& process, const CreateOptions& creation,
                                                 const CommConfig& config,
                                                 const WaitLimit& wait_limit,
                                                 DescriptorRoom::Claim& claim) {
  const Config& environment = *process.env().config;
  comm::CommunicatorOptions options;
  options.algorithms = registry::algorithms();
  options.watch = &process.watch();
  options.progress_thread = &process.progress_thread();
  options.timeout_ns = config.timeout_ns;
  options.least_ctas = config.least_ctas > 0 ? config.least_ctas : environment.least_ctas;
  const bool says_most = environment.origins.contains("TUTTI_CTAS");
  options.most_ctas = config.most_ctas > 0 ? config.most_ctas
                      : says_most          ? environment.most_ctas
                                           : 0;
  options.device = &device();
  options.device_place = options.device->current();
  options.origin = creation.origin;
  comm::MembershipOptions& membership = options.membership;
  membership.env = &process.env();
  membership.engine = config.engine == EngineWish::kAuto ? environment.engine : config.engine;
  // Checked when the settings were read.
  const Result<codecs::WireOption> wire = codecs::parse_wire(environment.wire);
  membership.wire = config.wire ? *config.wire : codecs::wire_text(wire.value());
  membership.transports = registry::transports();
  membership.level_sources = registry::level_sources();
  membership.layout =
      exec::ArenaLayout(environment.ring_bytes, exec::PairExecutor::kPairBytes, creation.ranks);
  membership.wait_limit = wait_limit;
  membership.exchange = creation.exchange;
  membership.inherited = creation.inherited;
  membership.make_room = [&claim](uint64_t descriptors) { claim.add(descriptors); };
  transport::Member& self = membership.self;
  self.rank = creation.rank;
  self.ranks = creation.ranks;
  self.communicator = creation.communicator;
  self.epoch = creation.epoch;
  self.key = creation.key;
  self.id = {process.id(), creation.member_number};
  self.endpoint = &process.endpoint();
  self.host_id = bootstrap::host_id(environment);
  const Result<bootstrap::Interface> chosen = choose_interface(environment, creation.places);
  if (!chosen.ok()) return chosen.status();
  self.bind_address = chosen.value().address.text();
  if (creation.history != nullptr) {
    options.history = creation.history;
    membership.previous = creation.previous;
    membership.listener = creation.history->listener();
    const comm::RankAddress& own = creation.history->place(creation.history->self());
    self.bind_address = own.address.text();
  }
  self.keepalive_ns = environment.keepalive_ns;
  self.rdma = environment.rdma;
  self.tcp_flows = environment.tcp_flows;
  self.insecure = environment.insecure;
  process.env().log->info(
      "rank {} of {} on host {}: ranks of other hosts reach it at {} ({}); TUTTI_SOCKET_IFNAME "
      "chooses another interface",
      creation.rank, creation.ranks, self.host_id, self.bind_address, chosen.value().name);
  return comm::Communicator::create(std::move(options));
}

/// The same, with room for its descriptors.
Result<std::unique_ptr<comm::Communicator>> make_with_room(Process& process,
                                                           const CreateOptions& creation,
                                                           const CommConfig& config,
                                                           const WaitLimit& wait_limit) {
  // Its own, and at the meeting place, which is mostly rank 0's process, one for each rank.
  constexpr uint64_t kOwn = 16;
  const auto meeting = creation.rank == 0 ? static_cast<uint64_t>(creation.ranks) : 0;
  DescriptorRoom::Claim claim(process.descriptors(), kOwn + meeting);
  auto made = make(process, creation, config, wait_limit, claim);
  if (!made.ok()) return claim.explain(made.status());
  return made;
}

}  // namespace

// Before anything is allocated for so many.
Status check_size(const char* call, int ranks) {
  if (ranks <= bootstrap::kMaxRanks) return {};
  return Status::invalid_argument(std::string(call) + ": " + std::to_string(ranks) +
                                  " ranks; a group has at most " +
                                  std::to_string(bootstrap::kMaxRanks));
}

Result<std::unique_ptr<comm::Communicator>> create_communicator(Process& process,
                                                                const CreateOptions& creation,
                                                                const CommConfig& config,
                                                                const WaitLimit& wait_limit) {
  bool met = false;
  const auto attempted = [&]() -> Result<std::unique_ptr<comm::Communicator>> {
    try {
      CreateOptions watched = creation;
      watched.exchange = [&](std::string_view card, const WaitLimit& meeting_patience) {
        met = true;
        return creation.exchange(card, meeting_patience);
      };
      return make_with_room(process, watched, config, wait_limit);
    } catch (const std::exception& error) {
      return status_of(error);
    }
  };
  auto made = attempted();
  // The exchange itself tells the others if it fails.
  if (!made.ok() && !met && creation.decline) attempt(creation.decline);
  return made;
}

CreateOptions create_options_of(const Config& config, const std::vector<bootstrap::UniqueId>& ids,
                                int ranks, int rank) {
  CreateOptions creation;
  creation.rank = rank;
  creation.ranks = ranks;
  creation.communicator = ids[0].communicator();
  creation.key = ids[0].key;
  creation.places = ids[0].addresses;
  // Where rank 0 opens the place itself, nobody can be told before it has.
  if (rank != 0 || !ids[0].rank_0_opens) {
    creation.decline = [ids, ranks, rank] { bootstrap::decline(std::span(ids), rank, ranks); };
  }
  creation.exchange = [&config, ids, ranks, rank](std::string_view card,
                                                  const WaitLimit& wait_limit) {
    return bootstrap::exchange_at(config, std::span(ids), {rank, ranks, wait_limit}, card);
  };
  if (ids[0].rank_0_opens) {
    creation.origin = "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                      " by its caller; met by TUTTI_ID";
    if (ids[0].keyless) creation.origin += kWithoutKey;
  }
  return creation;
}

void tell_origin(const Process& process, const CreateOptions& creation, bool keyless) {
  Logger& log = *process.env().log;
  if (keyless) {
    log.warning("{}", creation.origin);
  } else if (!creation.origin.empty()) {
    log.info("{}", creation.origin);
  }
}

Result<bootstrap::UniqueId> decode_id(std::span<const uint8_t> bytes) {
  const Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  const auto& secret = process.value()->env().config->key;
  return bootstrap::UniqueId::decode(bytes, secret ? &*secret : nullptr);
}

Result<bootstrap::UniqueId> decode_id(const tuttiUniqueId& bytes) {
  return decode_id({reinterpret_cast<const uint8_t*>(bytes.internal), sizeof bytes.internal});
}

tuttiUniqueId encode_id(const bootstrap::UniqueId& id) {
  tuttiUniqueId made;
  const bootstrap::UniqueIdBytes bytes = id.encode();
  static_assert(sizeof made.internal == bootstrap::kUniqueIdBytes);
  std::memcpy(made.internal, bytes.data(), bytes.size());
  return made;
}

}  // namespace tutti::api
