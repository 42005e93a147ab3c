#include "src/api/found.h"

#include <cstring>
#include <utility>
#include <vector>

#include "src/bootstrap/host.h"
#include "src/bootstrap/interfaces.h"
#include "src/bootstrap/rendezvous.h"
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
                                                  const CommConfig& config) {
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
  membership.deadline_ns = deadline_after(environment.init_timeout_ns);
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

Founding founding_of(const std::vector<bootstrap::UniqueId>& ids, int ranks, int rank) {
  return {rank,
          ranks,
          ids[0].communicator(),
          ids[0].key,
          [ids, ranks, rank](std::string_view card, uint64_t deadline_ns) {
            return bootstrap::exchange(std::span(ids), rank, ranks, card, deadline_ns);
          },
          ""};
}

Founding founding_of(const bootstrap::UniqueId& id, int ranks, int rank) {
  return founding_of(std::vector{id}, ranks, rank);
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
