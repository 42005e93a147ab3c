// RDMA cards in software, for one process: a table of functions as libibverbs has, whose queue
// pairs reach each other in memory. Faults of cards are planted.
//
// It checks what a card checks (keys, bounds, states, room in queues) and fails as a card does.
// Sends are delivered at once and in order, where the other end has a receive for them; else they
// wait.
//
// Owns:    all cards of the process, and the folder that describes them as /sys/class/infiniband
//          would; both go with the process.
// Threads: any; one mutex.
// Errors:  as libibverbs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/transport/member.h"
#include "src/transport/transport.h"
#include "transports/verbs/adapter.h"

namespace tutti::software_verbs {

/// One card "soft0" with one active port, with addresses of IPv6 (index 0) and IPv4 (index 1).
transports::verbs::Equipment equipment();

/// A transport over it, as transports::verbs::make().
Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member);

/// How much the cards have done since the process began.
struct CardCounts {
  uint64_t sends = 0;
  uint64_t writes = 0;
  uint64_t written_bytes = 0;
  uint64_t waits = 0;  // sends that found no receive
  uint64_t events = 0;
  /// Contexts, domains, registrations, channels, queues and queue pairs that are not destroyed.
  int64_t objects = 0;
};
CardCounts counts();

/// The send after the next `after` ones, on any pair, completes with this status, its pair fails.
void plant_failure(uint64_t after, int status);
/// Every card tells this of itself.
void tell(int event_type, int port);
/// The next registrations fail with this errno; 0: none does.
void plant_registration_error(int error);
/// Opening a card fails with this errno; 0: it does not.
void plant_opening_error(int error);
/// Completion queues cannot be read any more, until this is undone.
void plant_broken_queues(bool broken);

}  // namespace tutti::software_verbs
