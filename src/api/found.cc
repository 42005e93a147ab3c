#include "src/api/found.h"

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

Result<std::unique_ptr<comm::Communicator>> make(Process& process, const Founding& founding,
                                                 const CommConfig& config, const Patience& patience,
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
  options.origin = founding.origin;
  comm::MembershipOptions& membership = options.membership;
  membership.env = &process.env();
  membership.engine = config.engine == EngineWish::kAuto ? environment.engine : config.engine;
  // Checked when the settings were read.
  const Result<codecs::WireOption> wire = codecs::parse_wire(environment.wire);
  membership.wire = config.wire ? *config.wire : codecs::wire_text(wire.value());
  membership.transports = registry::transports();
  membership.level_sources = registry::level_sources();
  membership.layout =
      exec::ArenaLayout(environment.ring_bytes, exec::PairExecutor::kPairBytes, founding.ranks);
  membership.patience = patience;
  membership.exchange = founding.exchange;
  membership.inherited = founding.inherited;
  membership.make_room = [&claim](uint64_t descriptors) { claim.add(descriptors); };
  transport::Member& self = membership.self;
  self.rank = founding.rank;
  self.ranks = founding.ranks;
  self.communicator = founding.communicator;
  self.epoch = founding.epoch;
  self.key = founding.key;
  self.id = {process.id(), founding.member_number};
  self.endpoint = &process.endpoint();
  self.host_id = bootstrap::host_id(environment);
  const Result<bootstrap::Interface> chosen = choose_interface(environment, founding.places);
  if (!chosen.ok()) return chosen.status();
  self.bind_address = chosen.value().address.text();
  if (founding.history != nullptr) {
    options.history = founding.history;
    membership.previous = founding.previous;
    membership.listener = founding.history->listener();
    const comm::RankAddress& own = founding.history->place(founding.history->self());
    self.bind_address = own.address.text();
  }
  self.keepalive_ns = environment.keepalive_ns;
  self.rdma = environment.rdma;
  self.tcp_flows = environment.tcp_flows;
  self.insecure = environment.insecure;
  process.env().log->info(
      "rank {} of {} on host {}: ranks of other hosts reach it at {} ({}); TUTTI_SOCKET_IFNAME "
      "chooses another interface",
      founding.rank, founding.ranks, self.host_id, self.bind_address, chosen.value().name);
  return comm::Communicator::create(std::move(options));
}

/// The same, with room for its descriptors.
Result<std::unique_ptr<comm::Communicator>> make_with_room(Process& process,
                                                           const Founding& founding,
                                                           const CommConfig& config,
                                                           const Patience& patience) {
  // Its own, and at the meeting place, which is mostly rank 0's process, one for each rank.
  constexpr uint64_t kOwn = 16;
  const auto meeting = founding.rank == 0 ? static_cast<uint64_t>(founding.ranks) : 0;
  DescriptorRoom::Claim claim(process.descriptors(), kOwn + meeting);
  auto made = make(process, founding, config, patience, claim);
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

Result<std::unique_ptr<comm::Communicator>> found(Process& process, const Founding& founding,
                                                  const CommConfig& config,
                                                  const Patience& patience) {
  bool met = false;
  const auto attempted = [&]() -> Result<std::unique_ptr<comm::Communicator>> {
    try {
      Founding watched = founding;
      watched.exchange = [&](std::string_view card, const Patience& meeting_patience) {
        met = true;
        return founding.exchange(card, meeting_patience);
      };
      return make_with_room(process, watched, config, patience);
    } catch (const std::exception& error) {
      return status_of(error);
    }
  };
  auto made = attempted();
  // The exchange itself tells the others if it fails.
  if (!made.ok() && !met && founding.decline) attempt(founding.decline);
  return made;
}

Founding founding_of(const Config& config, const std::vector<bootstrap::UniqueId>& ids, int ranks,
                     int rank) {
  Founding founding;
  founding.rank = rank;
  founding.ranks = ranks;
  founding.communicator = ids[0].communicator();
  founding.key = ids[0].key;
  founding.places = ids[0].addresses;
  // Where rank 0 opens the place itself, nobody can be told before it has.
  if (rank != 0 || !ids[0].rank_0_opens) {
    founding.decline = [ids, ranks, rank] { bootstrap::decline(std::span(ids), rank, ranks); };
  }
  founding.exchange = [&config, ids, ranks, rank](std::string_view card, const Patience& patience) {
    return bootstrap::exchange_at(config, std::span(ids), {rank, ranks, patience}, card);
  };
  if (ids[0].rank_0_opens) {
    founding.origin = "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                      " by its caller; met by TUTTI_ID";
    if (ids[0].keyless) founding.origin += kWithoutKey;
  }
  return founding;
}

void tell_origin(const Process& process, const Founding& founding, bool keyless) {
  Logger& log = *process.env().log;
  if (keyless) {
    log.warning("{}", founding.origin);
  } else if (!founding.origin.empty()) {
    log.info("{}", founding.origin);
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
