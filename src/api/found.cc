#include "src/api/found.h"

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "src/bootstrap/host.h"
#include "src/bootstrap/interfaces.h"
#include "src/bootstrap/place.h"
#include "src/registry/algorithms.h"
#include "src/registry/transports.h"

namespace tutti::api {
namespace {

Result<std::string> listening_address(const Config& config) {
  const Result<std::vector<bootstrap::Address>> own = bootstrap::own_addresses(config);
  if (!own.ok()) return own.status();
  return own.value().front().text();
}

}  // namespace

Result<std::unique_ptr<comm::Communicator>> found(Process& process, const Founding& founding,
                                                  const CommConfig& config,
                                                  const Patience& patience) {
  const Config& environment = *process.env().config;
  comm::CommunicatorOptions options;
  options.algorithms = registry::algorithms();
  options.watch = &process.watch();
  options.attendant = &process.attendant();
  options.timeout_ns = config.timeout_ns;
  options.origin = founding.origin;
  comm::MembershipOptions& membership = options.membership;
  membership.env = &process.env();
  membership.transports = registry::transports();
  membership.layout =
      exec::ArenaLayout(environment.ring_bytes, exec::PairExecutor::kPairBytes, founding.ranks);
  membership.patience = patience;
  membership.exchange = founding.exchange;
  transport::Member& self = membership.self;
  self.rank = founding.rank;
  self.ranks = founding.ranks;
  self.communicator = founding.communicator;
  self.key = founding.key;
  self.process_token = process.token();
  self.host_id = bootstrap::host_id(environment);
  Result<std::string> address = listening_address(environment);
  if (!address.ok()) return address.status();
  self.bind_address = address.value();
  return comm::Communicator::create(std::move(options));
}

Founding founding_of(const Config& config, const std::vector<bootstrap::UniqueId>& ids, int ranks,
                     int rank) {
  Founding founding;
  founding.rank = rank;
  founding.ranks = ranks;
  founding.communicator = ids[0].communicator();
  founding.key = ids[0].key;
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

Result<bootstrap::UniqueId> decode_id(const tuttiUniqueId& bytes) {
  return bootstrap::UniqueId::decode(
      {reinterpret_cast<const uint8_t*>(bytes.internal), sizeof bytes.internal});
}

tuttiUniqueId encode_id(const bootstrap::UniqueId& id) {
  tuttiUniqueId made;
  const bootstrap::UniqueIdBytes bytes = id.encode();
  static_assert(sizeof made.internal == bootstrap::kUniqueIdBytes);
  std::memcpy(made.internal, bytes.data(), bytes.size());
  return made;
}

}  // namespace tutti::api
