// Makes the communicator of all ranks, with which tests over a team begin.
//
// Owns:    nothing; the body ends what it makes.
// Threads: one.
// Errors:  reported to the team.
#pragma once

#include <vector>

#include "tests/support/team.h"

namespace tutti::testing_support {

/// Of a communicator whose making or end goes on without its caller.
inline tuttiResult_t await_settled(tuttiComm_t comm) {
  tuttiResult_t asked = tuttiSuccess, state = tuttiInProgress;
  while (asked == tuttiSuccess && state == tuttiInProgress) {
    sleep_ns(20'000);
    asked = tuttiCommGetAsyncError(comm, &state);
  }
  return asked != tuttiSuccess ? asked : state;
}

/// Null, and the rank's failure is said, if it cannot be made.
inline tuttiComm_t join(Member& member, bool blocking = true) {
  tuttiUniqueId id;
  tuttiComm_t comm = nullptr;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  if (!member.take_id(id)) return nullptr;
  tuttiResult_t made = tuttiCommInitRankConfig(&comm, member.ranks(), id, member.rank(), &config);
  if (made == tuttiInProgress) made = await_settled(comm);
  if (made == tuttiSuccess) return comm;
  member.fail(tuttiGetLastError(nullptr));
  return nullptr;
}

/// A call for any time: the sum of `count` ones.
inline tuttiResult_t sum(tuttiComm_t comm, size_t count) {
  const std::vector<float> send(count, 1.0f);
  std::vector<float> recv(count);
  return tuttiAllReduce(send.data(), recv.data(), count, tuttiFloat32, tuttiSum, comm,
                        tuttiBlocking());
}

class TeamRank {
 public:
  explicit TeamRank(Member& member) : member_(member) {}

 protected:
  /// Whether the call succeeded; its message becomes the rank's failure if not.
  bool ok(tuttiResult_t result) {
    if (result != tuttiSuccess) member_.fail(tuttiGetLastError(nullptr));
    return result == tuttiSuccess;
  }
  /// Makes comm_.
  bool join() {
    comm_ = testing_support::join(member_);
    return comm_ != nullptr;
  }

  Member& member_;
  tuttiComm_t comm_ = nullptr;
};

}  // namespace tutti::testing_support
