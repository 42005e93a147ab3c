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

inline constexpr int kMostCards = 4;
/// Cards "soft0", "soft1", ..., each with one active port, with addresses of IPv6 (index 0) and
/// IPv4 (index 1).
/// `cards`: 1, or kMostCards.
transports::verbs::Equipment equipment(int cards = 1);

/// A transport over it, as transports::verbs::make().
Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member);
/// The same over four cards; a member uses those that its settings say.
Result<std::unique_ptr<transport::Transport>> make_with_four(const transport::Member& member);

/// How much the cards have done since the process began.
struct CardCounts {
  uint64_t sends = 0;
  uint64_t writes = 0;
  uint64_t immediate_bytes = 0;  // of writes with an immediate value
  uint64_t written_bytes = 0;
  uint64_t written_by[kMostCards] = {};  // of them, by the sender's card
  uint64_t reads = 0;
  uint64_t read_bytes = 0;
  uint64_t waits = 0;  // sends that found no receive
  uint64_t events = 0;
  /// Contexts, domains, registrations, channels, queues and queue pairs that are not destroyed.
  int64_t objects = 0;
};
CardCounts counts();

/// The kinds of sends that a planted failure counts.
enum class Sends { kAll, kFrames, kSegments, kReads };
/// The send after the next `after` ones of a kind, on any pair, completes with this status, and its
/// pair fails. `arrives`: the peer has it all the same.
struct PlantedFailure {
  uint64_t after = 0;
  int status = 0;
  bool arrives = true;
  Sends of = Sends::kAll;
};
void plant(const PlantedFailure& failure);
/// The port of this card reaches nobody any more, until it is undone.
void cut(int card, bool is_cut);
/// Bytes of a plain write lie in memory no sooner than a later send on its pair, as cards may have
/// it.
void plant_late_writes(bool late);
/// This card, or every one (-1), tells this of itself.
void tell(int event_type, int port, int card = -1);
/// The next registrations fail with this errno; 0: none does.
void plant_registration_error(int error);
/// Cards can register memory of devices (at first), or say that they cannot.
void plant_device_memory(bool can);
/// Bytes that are written to memory of a device lie there no sooner than a card reads that memory.
void plant_late_device_writes(bool late);
/// Opening a card fails with this errno; 0: it does not.
void plant_opening_error(int error);
/// Completion queues cannot be read any more, until this is undone.
void plant_broken_queues(bool broken);

}  // namespace tutti::software_verbs
