// Meeting at a place that every rank was told: HOST:PORT of TUTTI_ID, or torchrun's MASTER_ADDR.
// Every rank computes the same id from it; the key comes another way, and rank 0 opens the place.
//
// Errors: kInvalidUsage without a shared key says what to set; kTimeout names the host that nobody
// knows, kSystemError the place that cannot be opened. Threads: no state. Units: deadlines of
// CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/config.h"
#include "src/base/setting_values.h"
#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/bootstrap/server.h"
#include "src/bootstrap/unique_id.h"

namespace tutti::bootstrap {

/// Where the environment tells every rank of the job to meet: the addresses of TUTTI_ID's host, or
/// else of MASTER_ADDR. Empty where it names none, or none that resolves here.
std::vector<Address> named_places(const Config& config, const Variables& variables);

/// The name of the one that asks for an id, for messages ("rank 1 of 2"), and how long it waits for
/// the host's name to be known.
struct PlaceClient {
  std::string who;
  WaitLimit wait_limit{0};
};

/// `name` tells the groups apart that meet there one after the other. UniqueId::keyless says that
/// TUTTI_INSECURE took the place of a key.
Result<UniqueId> id_at(const HostPort& place, const Config& config, std::string_view name,
                       const PlaceClient& client);

/// The same for ids that programs hand to their ranks: each process that asks as often as the
/// others gets the same id, which says that rank 0 opens the place (exchange_at).
Result<UniqueId> id_at(const HostPort& place, const Config& config, uint64_t sequence,
                       const WaitLimit& wait_limit);

/// Opens the place of an id. `one_host`: all ranks are on this one.
Result<std::unique_ptr<Server>> open_place(const HostPort& place, const UniqueId& id,
                                           const Config& config, bool one_host);

struct PendingPeer {
  int rank = 0;
  int ranks = 1;
  WaitLimit wait_limit{0};
};

/// The all-gather of the group that meets at these ids (rendezvous.h). Rank 0 opens the place where
/// the id says so, and closes it when every rank has its answer.
Result<std::vector<std::string>> exchange_at(const Config& config, std::span<const UniqueId> ids,
                                             const PendingPeer& me, std::string_view blob);

}  // namespace tutti::bootstrap
