// Where a rank stands in its group by the group's history, which an edit may have taken beyond the
// communicator's epoch though its links could not be made.
//
// Owns: the history, together with the ranks of later epochs. Threads: any. Lifetime: within the
// membership. Errors: kSystemError where a rank that was alone cannot listen.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/mutex.h"
#include "src/comm/group_history.h"
#include "src/comm/membership.h"

namespace tutti::comm {

class Standing {
 public:
  /// `self`: of the communicator. `history`: of the epochs before this one; null: this is the
  /// first.
  Standing(const Membership& membership, const transport::Member& self,
           std::shared_ptr<GroupHistory> history)
      : membership_(membership),
        first_{self.communicator, self.key},
        bind_address_(self.bind_address),
        own_epoch_(history == nullptr ? 0 : history->epoch()),
        history_(std::move(history)) {}

  /// For edits; made at its first use.
  Result<std::shared_ptr<GroupHistory>> history();
  uint32_t epoch() const;
  /// The communicator's, whatever has been decided since.
  uint32_t own_epoch() const { return own_epoch_; }
  int rank() const;
  int ranks() const;
  std::vector<MemberId> members() const;

 private:
  const Membership& membership_;
  const bootstrap::GroupKey first_;
  const std::string bind_address_;
  const uint32_t own_epoch_;
  mutable Mutex mutex_;
  std::shared_ptr<GroupHistory> history_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti::comm
