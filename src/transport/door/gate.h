// Lets in the callers of a listening socket that prove to belong to the job: many at once, none of
// them able to delay another.
//
// At most kMaxHalfOpen callers are listened to at a time, each for kPatienceNs and for the bytes of
// a handshake. When more are waiting, those that have said least for longest make room, so that a
// flood of silent connections keeps nobody out; a rank that meets this calls again (call.h). A
// caller that has said hello keeps its place though others wait, for its proof is on the way: for
// kAnswerNs from its arrival, or a few round trips of its connection if that is longer. So all
// ranks of a job may call at once, from far away. Nothing a caller does makes the gate fail. Where
// descriptors run out, those who wait are hung up on with one that is kept for this, so that they
// call again and nobody's poll() returns for a caller that cannot be let in.
//
// Owns:    the listener and the callers that have not proved themselves.
// Threads: one.
// Errors:  next() gives kTimeout telling what was refused meanwhile, and what accept() cannot do
//          (descriptors run out).
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/fork.h"
#include "src/base/poll_set.h"
#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/transport/door/handshake.h"
#include "src/transport/member.h"

namespace tutti::transport::door {

class Gate {
 public:
  static constexpr size_t kMaxHalfOpen = 64;
  static constexpr uint64_t kPatienceNs = 2'000'000'000;
  static constexpr uint64_t kAnswerNs = 100'000'000;

  struct AdmittedCaller {
    KeptFd fd;
    int rank = -1;
    Identity self;  // the one of the door's ranks that it has called
    Binding binding{};
  };

  /// Looks at a fresh connection before a byte of it is read: OK lets it go on.
  using Vet = std::function<Status(int fd)>;
  /// Of a connection, in nanoseconds; 0: not known.
  using RoundTrip = std::function<uint64_t(int fd)>;
  static uint64_t round_trip_of_tcp(int fd);

  /// The listener is made non-blocking.
  Gate(KeptFd listener, const JobKey& key, const Identity& self, Vet vet = {},
       RoundTrip round_trip = round_trip_of_tcp);
  /// Of many ranks. `locks` runs within next() and step().
  Gate(KeptFd listener, Locks locks, Vet vet = {}, RoundTrip round_trip = round_trip_of_tcp);

  /// The next caller that proved itself, whoever it is.
  Result<AdmittedCaller> next(const WaitLimit& wait_limit);

  /// For a caller with an event loop of its own: what to poll for, until when, and what to do
  /// after.
  void append_polls(std::vector<pollfd>& polls) const;
  uint64_t earliest_expiry_ns() const;
  /// The same for a thread that sleeps on a set: listener and callers are in it by this tag.
  Status list_in(const PollSet& set, uint64_t tag);
  /// Nobody new comes in until this is undone: accept() cannot go on, and polling is in vain.
  void rest(bool resting);
  /// Never waits. Appends to `admitted`. An error is accept()'s; the callers at the gate stay.
  Status step(std::vector<AdmittedCaller>& admitted);

  size_t refused() const { return refused_; }
  const std::string& last_refusal() const { return last_refusal_; }

 private:
  struct Guest {
    PolledFd fd;
    uint64_t expiry_ns;
    uint64_t answer_by_ns;  // what others wait for, once it has said hello
    Greeting greeting;

    /// From when on.
    uint64_t makes_room_ns() const;
  };

  Status accept_waiting();
  KeptFd accept_one();
  /// Where there is no descriptor for them.
  void decline_waiting();
  void keep_spare();
  void hear_all(std::vector<AdmittedCaller>& admitted);
  bool somebody_waits() const;
  /// False: nobody can be hung up on yet.
  bool make_room();
  void listen(bool resting, bool crowded);
  void welcome(KeptFd fd);
  /// True when the guest is done with, one way or the other.
  bool hear(Guest& guest, std::vector<AdmittedCaller>& admitted);
  void refuse(const Status& reason);

  PolledFd listener_;
  KeptFd spare_;
  const Locks locks_;
  const Vet vet_;
  const RoundTrip round_trip_;
  const PollSet* set_ = nullptr;
  uint64_t tag_ = 0;
  bool resting_ = false;
  bool crowded_ = false;  // who waits has to wait for a place: listening is in vain
  std::vector<Guest> guests_;
  std::vector<AdmittedCaller> ready_;  // proved themselves, not yet handed out by next()
  size_t refused_ = 0;
  std::string last_refusal_;
};

}  // namespace tutti::transport::door
