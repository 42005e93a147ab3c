// Keeps members that an edit removes out of this rank's memory, though they may live: those of this
// host that have mapped it. A member elsewhere writes by a connection, which ends with its epoch.
//
// A removed process begins nothing in a window from now on, and one that is inside is waited for.
// Registered memory has no door: there a process is waited for until it has left, or ended. Threads
// of this process are not kept out.
//
// Threads: one, the one that edits. Errors: kTimeout names the member, and what it may still write
//          to. Lifetime: within the communicator's.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/comm/communicator.h"

namespace tutti::comm {

class RemovedMembers {
 public:
  /// `kills`: a process that does not let go in time is killed.
  RemovedMembers(Communicator& epoch, bool kills) : epoch_(epoch), kills_(kills) {}
  /// Lets everybody in again, unless stay_out() was called.
  ~RemovedMembers();
  RemovedMembers(const RemovedMembers&) = delete;
  RemovedMembers& operator=(const RemovedMembers&) = delete;

  /// Until none of them can write to this rank's memory.
  Status keep_out(const std::vector<MemberId>& leaving, const WaitLimit& wait_limit);
  /// The edit is decided: they stay outside.
  void stay_out() { is_final_ = true; }

 private:
  Status wait_for(int rank, const WaitLimit& wait_limit) const;

  Communicator& epoch_;
  const bool kills_;
  bool is_final_ = false;
  std::vector<int> barred_;
};

}  // namespace tutti::comm
