// The exchange that PMIx and PMI2 have in common: every rank puts texts, all meet at a fence, and
// then each can get what the others have put.
//
// Threads: one call at a time, from any. Errors: kSystemError with the library's words. A fence
// waits for all ranks without a bound of its own; meet_over() gives it one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/bootstrap/launch/meeting.h"

namespace tutti::bootstrap {

class LauncherExchange : public Support {
 public:
  virtual Status put(const std::string& key, const std::string& value) = 0;
  virtual Status fence() = 0;
  /// The text that rank 0 put.
  virtual Result<std::string> get(const std::string& key) = 0;
};

/// Leaves the launcher's service when the process exits, and no sooner: the others may be at a
/// fence that this rank is done with. A forked child that exits leaves its parent's session alone.
void at_exit(std::function<void()> leave);

/// Rank 0 opens a meeting and puts its id; the others get it. A call that does not come back in
/// time is left behind with its thread.
Result<LaunchMeeting> meet_over(std::unique_ptr<LauncherExchange> exchange, const Launch& launch,
                                const Start& start);

}  // namespace tutti::bootstrap
