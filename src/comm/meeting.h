// Ranks of a group come together without its connections, some of which may be dead: the lowest of
// them serves a rendezvous at its place of the roster. All that takes part proves that it holds a
// key derived from the group's.
//
// Threads: one. Errors: kTimeout and kRemoteError name the rank that serves, and who did not come;
// kInvalidUsage when members disagree about who they are, and for a rank that the others leave out.
// Bounded by the wait limit, and by the life of all members.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/clock.h"
#include "src/base/wait_limit.h"
#include "src/bootstrap/rendezvous.h"
#include "src/bootstrap/server.h"
#include "src/comm/roster.h"

namespace tutti::comm {

class Meeting {
 public:
  struct MeetingPurpose {
    std::string what;  // for messages: "split"
    WaitLimit wait_limit{0};
    uint64_t look_ns = 60 * kNanosecondsPerSecond;  // for members that cannot come any more
    int meeting_number = 0;            // who comes to another one waits until that is over
    WaitLimit::Sense sense = nullptr;  // of waiting for who has not come; null: it always has
  };

  /// Of `members` (ranks of the roster, rising, this rank among them).
  Meeting(std::shared_ptr<const Roster> roster, std::vector<int> members, MeetingPurpose purpose);

  /// Everybody's blob, in the order of the members, who all call it. Each has a server of its own:
  /// whoever comes early for the next one, or for the next meeting, waits for that.
  Result<std::vector<std::string>> exchange(std::string_view blob);

  /// Instead, by a member that will not take part: the others are told.
  void decline();

 private:
  /// Null if another member serves.
  Result<std::unique_ptr<bootstrap::Server>> serve(bootstrap::ServerOptions options) const;
  /// Of a member whose process is gone, or its communicator: nobody listens at its place.
  Status look_for_members();
  Status explain(const Status& reason) const;

  const std::shared_ptr<const Roster> roster_;
  const std::vector<int> members_;
  const MeetingPurpose purpose_;
  bool all_have_come_ = false;
  size_t looked_ = 0;  // for how many members
  bootstrap::JoinOptions join_;
};

}  // namespace tutti::comm
