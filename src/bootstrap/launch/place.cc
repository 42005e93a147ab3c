// Meeting at a place that every rank was told: TUTTI_ID=HOST:PORT, or torchrun's MASTER_ADDR. Rank
// 0 opens it there; the key comes another way.
#include <sodium.h>

#include <algorithm>
#include <utility>

#include "src/bootstrap/interfaces.h"
#include "src/bootstrap/launch/meeting.h"

namespace tutti::bootstrap {
namespace {

/// The shared key, or with TUTTI_INSECURE one that anybody can compute: it keeps jobs apart, no
/// intruder.
Result<SecretKey> key_of(const Start& start, std::string_view name, bool& insecure) {
  if (start.config.key) return *start.config.key;
  if (!start.config.insecure) {
    return Status::invalid_usage(
        "the ranks share no key, so nobody could tell them from intruders: set TUTTI_KEY_FILE on "
        "every rank to a file with mode 0600 that holds the output of 'openssl rand -hex 32' "
        "(TUTTI_INSECURE=1 goes on without a key)");
  }
  insecure = true;
  SecretKey key{};
  crypto_generichash(key.data(), key.size(), reinterpret_cast<const uint8_t*>(name.data()),
                     name.size(), nullptr, 0);
  return key;
}

/// A name may mean another address here than elsewhere (Debian: 127.0.1.1 for the host's own), so
/// rank 0 listens on its own addresses as well.
Result<std::unique_ptr<Server>> serve(const Start& start, const Meeting& meeting,
                                      const Place& place) {
  UniqueId served = meeting.id;
  if (!meeting.launch.one_host && !Address::parse(place.host).ok()) {
    const Result<std::vector<Address>> own = own_addresses(start.config);
    if (!own.ok()) return own.status();
    for (const Address& address : own.value()) {
      const auto& known = served.addresses;
      if (std::find(known.begin(), known.end(), address) == known.end()) {
        served.addresses.push_back(address);
      }
    }
  }
  ServerOptions options;
  options.idle_ns = start.config.init_timeout_ns;
  Result<std::unique_ptr<Server>> server = Server::start(served, options);
  if (server.ok()) return server;
  return Status(server.status().code(), std::string(server.status().message()) + " for " +
                                            place.host + ":" + std::to_string(place.port) +
                                            "; rank 0 must run on that host, and nothing else "
                                            "may use that port");
}

Result<Meeting> meet_at(const Start& start, const Place& place) {
  if (!start.launch.ok()) return start.launch.status();
  Meeting meeting;
  meeting.launch = start.launch.value();
  const std::string name = meeting_name(start, meeting.launch) + "@" + std::to_string(place.port);
  const Result<SecretKey> key = key_of(start, name, meeting.insecure);
  if (!key.ok()) return key.status();
  Result<UniqueId> id = UniqueId::at(place, key.value(), name);
  if (!id.ok()) return id.status();
  meeting.id = std::move(id).value();
  if (meeting.launch.rank != 0) return meeting;
  Result<std::unique_ptr<Server>> server = serve(start, meeting, place);
  if (!server.ok()) return server.status();
  meeting.server = std::move(server).value();
  return meeting;
}

}  // namespace

Result<Meeting> meet_by_id(const Start& start) {
  const std::string& text = start.config.id;
  if (text.empty()) return Status::unsupported("it is not set");
  if (const std::optional<Place> place = parse_place(text)) return meet_at(start, *place);
  if (text.size() != 2 * kUniqueIdBytes) {
    return Status::invalid_argument(
        "TUTTI_ID is neither 256 hexadecimal digits nor HOST:PORT (or [IPv6]:PORT)");
  }
  if (!start.launch.ok()) return start.launch.status();
  // Whoever made these bytes has the server.
  Result<UniqueId> id = UniqueId::from_text(text);
  if (!id.ok()) {
    return Status(id.status().code(), "TUTTI_ID: " + std::string(id.status().message()));
  }
  Meeting meeting;
  meeting.launch = start.launch.value();
  meeting.id = std::move(id).value();
  return meeting;
}

Result<Meeting> meet_at_master(const Start& start) {
  if (!start.launch.ok()) return Status::unsupported("no launcher said which rank this is");
  const Launch& launch = start.launch.value();
  if (launch.master_host.empty()) return Status::unsupported("it is not set");
  uint16_t port = start.config.port;
  if (port == 0 && launch.master_port != 0) port = static_cast<uint16_t>(launch.master_port + 1);
  if (port == 0) return Status::invalid_usage("MASTER_ADDR has no port to meet at: set TUTTI_PORT");
  return meet_at(start, {launch.master_host, port});
}

}  // namespace tutti::bootstrap
