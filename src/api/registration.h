// Registering memory, and giving memory back for a while: collective, but not operations on a
// stream. They run at once, or with the open group, where one thread may do so for several ranks.
//
// Threads: in a group a communicator registers in a thread for each, as the ranks wait for each
// other. Errors: kSystemError if there can be no such thread; then none registers.
#pragma once

#include <functional>
#include <vector>

#include "src/api/handle.h"

namespace tutti::api {

struct RegistrationCall {
  tuttiComm_t comm;
  /// Checks the handle again: another thread may have ended it meanwhile.
  std::function<Status(const RegistrationCall&)> run;
  bool operated_on = false;              // operations of the group follow on this communicator
  CommState within = CommState::kAlive;  // or kSuspended: what the communicator is meanwhile
};

/// OK if the communicator is suspended; kInvalidUsage.
Status check_suspended(tuttiComm_t comm);

/// Now, or with the open group.
tuttiResult_t register_memory(RegistrationCall registration);

/// Those of one communicator in the order of the calls, all of them even if one fails: other ranks
/// take part in each. The first error.
Status run_registrations(const std::vector<RegistrationCall>& registrations);

}  // namespace tutti::api
