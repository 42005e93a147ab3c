// A rank's verdict about the results of calls: the first failure goes to the watchdog.
#pragma once

#include <string>

#include "tests/support/team.h"

namespace tutti::random_calls {

/// Threads: the rank's.
class Verdict {
 public:
  explicit Verdict(testing_support::Member& member) : member_(member) {}

  bool ok(tuttiResult_t result, const char* what, tuttiComm_t comm) const {
    if (result == tuttiSuccess) return true;
    return wrong(std::string(what) + ": " + tuttiGetErrorString(result) + ": " +
                 tuttiGetLastError(comm));
  }
  bool wrong(const std::string& message) const {
    member_.fail(message);
    return false;
  }

 private:
  testing_support::Member& member_;
};

}  // namespace tutti::random_calls
