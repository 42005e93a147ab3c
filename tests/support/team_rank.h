// What the ranks of tests over a team begin with: the communicator of all of them.
//
// Owns: nothing; the body ends what it makes. Threads: one. Errors: reported to the team.
#pragma once

#include "tests/support/team.h"

namespace tutti::testing_support {

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
    tuttiUniqueId id;
    return member_.take_id(id) &&
           ok(tuttiCommInitRank(&comm_, member_.ranks(), id, member_.rank()));
  }

  Member& member_;
  tuttiComm_t comm_ = nullptr;
};

}  // namespace tutti::testing_support
