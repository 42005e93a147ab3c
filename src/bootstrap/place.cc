#include "src/bootstrap/place.h"

#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "src/bootstrap/interfaces.h"
#include "src/bootstrap/rendezvous.h"

namespace tutti::bootstrap {
namespace {

/// With TUTTI_INSECURE a key that anybody can compute: it keeps jobs apart, no intruder.
Result<SecretKey> key_of(const Config& config, std::string_view name) {
  if (config.key) return *config.key;
  if (!config.insecure) {
    return Status::invalid_usage(
        "the ranks share no key, so nobody could tell them from intruders: set TUTTI_KEY_FILE on "
        "every rank to a file with mode 0600 that holds the output of 'openssl rand -hex 32' "
        "(TUTTI_INSECURE=1 goes on without a key)");
  }
  SecretKey key{};
  crypto_generichash(key.data(), key.size(), reinterpret_cast<const uint8_t*>(name.data()),
                     name.size(), nullptr, 0);
  return key;
}

/// An earlier group may not have left the place yet.
Result<std::unique_ptr<Server>> open_when_free(const HostPort& place, const UniqueId& id,
                                               const Config& config, const WaitLimit& wait_limit) {
  constexpr uint64_t kPatienceNs = 5 * kNanosecondsPerSecond;
  constexpr uint64_t kPauseNs = 10'000'000;
  const WaitLimit shorter = wait_limit.at_most(kPatienceNs);
  for (;;) {
    Result<std::unique_ptr<Server>> server = open_place(place, id, config, false);
    if (server.ok() || shorter.over()) return server;
    shorter.pause(kPauseNs);
  }
}

}  // namespace

std::vector<Address> named_places(const Config& config, const Variables& variables) {
  std::string host;
  const auto master = variables.find("MASTER_ADDR");
  if (const auto place = parse_place(config.id)) {
    host = place->host;
  } else if (master != variables.end()) {
    host = master->second;
  }
  if (host.empty()) return {};
  Result<std::vector<Address>> addresses = resolve(host);
  return addresses.ok() ? std::move(addresses).value() : std::vector<Address>();
}

Result<UniqueId> id_at(const HostPort& place, const Config& config, std::string_view name,
                       const PlaceClient& client) {
  const Result<SecretKey> key = key_of(config, name);
  if (!key.ok()) return key.status();
  Result<std::vector<Address>> addresses = resolve(place.host, client.who, client.wait_limit);
  if (!addresses.ok()) return addresses.status();
  UniqueId id = UniqueId::at(std::move(addresses).value(), place.port, key.value(), name);
  id.keyless = !config.key;
  id.at_place = true;
  return id;
}

Result<UniqueId> id_at(const HostPort& place, const Config& config, uint64_t sequence,
                       const WaitLimit& wait_limit) {
  const std::string name = "id #" + std::to_string(sequence) + "@" + std::to_string(place.port);
  const PlaceClient client{"process " + std::to_string(getpid()), wait_limit};
  Result<UniqueId> id = id_at(place, config, name, client);
  if (id.ok()) {
    id.value().rank_0_opens = true;
    return id;
  }
  return Status(id.status().code(),
                "TUTTI_ID (NCCL_COMM_ID) is a place, so every rank makes the id by itself; " +
                    std::string(id.status().message()));
}

/// A name may mean another address here than elsewhere (Debian: 127.0.1.1 for the host's own), so
/// rank 0 listens on its own addresses as well.
Result<std::unique_ptr<Server>> open_place(const HostPort& place, const UniqueId& id,
                                           const Config& config, bool one_host) {
  UniqueId served = id;
  if (!one_host && !Address::parse(place.host).ok()) {
    const Result<std::vector<Interface>> own = own_interfaces(config);
    if (!own.ok()) return own.status();
    for (const Address& address : addresses_of(own.value())) {
      const auto& known = served.addresses;
      if (std::find(known.begin(), known.end(), address) == known.end()) {
        served.addresses.push_back(address);
      }
    }
  }
  ServerOptions options;
  options.idle_ns = config.init_timeout_ns;
  Result<std::unique_ptr<Server>> server = Server::start(served, options);
  if (server.ok()) return server;
  return Status(server.status().code(), std::string(server.status().message()) + " for " +
                                            place.host + ":" + std::to_string(place.port) +
                                            "; rank 0 must run on that host, and nothing else "
                                            "may use that port");
}

Result<std::vector<std::string>> exchange_at(const Config& config, std::span<const UniqueId> ids,
                                             const PendingPeer& me, std::string_view blob) {
  const UniqueId& id = ids.front();
  std::unique_ptr<Server> server;
  if (me.rank == 0 && id.rank_0_opens) {
    // The id may come from a rank that resolved the name; this one's environment has the name.
    const HostPort place =
        parse_place(config.id).value_or(HostPort{id.addresses.front().text(), id.port});
    Result<std::unique_ptr<Server>> opened = open_when_free(place, id, config, me.wait_limit);
    if (!opened.ok()) return opened.status();
    server = std::move(opened).value();
  }
  Result<std::vector<std::string>> blobs = exchange(ids, me.rank, me.ranks, blob, me.wait_limit);
  if (server == nullptr) return blobs;
  if (blobs.ok()) {
    server->finish(me.wait_limit);
  } else {
    server->fail(blobs.status());
    Server::release(std::move(server));  // it tells late ranks why
  }
  return blobs;
}

}  // namespace tutti::bootstrap
