// A group of ranks that trains step by step, and goes on when some of them die or join.
//
//   step 7   work ......... | commit: 8 bytes from each rank       | counts, on all ranks
//   step 8   work ... X     | edit in place, roll call: 7 counts | again, by those who live
//
// A step counts once a commit has succeeded on any rank. A rank whose commit failed asks the others
// after the edit, by a roll call: if one of them saw the step committed, it counts here, too, with
// what this rank has computed; otherwise everybody runs the step again. So no two survivors differ
// about a step, whenever somebody dies. One who saw a commit cannot finish the next step without
// those who did not, so there is never more than one step to make up for.
//
// Replicas: ranks that hold the parts of one copy of the model (HSDP) live and leave together: if
//           one of them dies, the edit removes the others as well, and they get an error.
// Joining:  a member announces newcomers (expect_newcomers()) with its next commit; behind that
//           commit all members edit. A newcomer makes its communicator by tuttiCommJoin(), then its
//           StepGroup, and takes part in every step from there on. It is not counted until it has
//           said caught_up() and the commit of that step has succeeded.
// Deciding: as edits.h says: on one host the kernel knows who is dead; over several hosts more than
//           half of the members must live. A stopped process is waited for, until `recovery_ns`.
// Owns:     across(), which edits make anew where replicas have several ranks. The communicator is
//           the caller's: blocking or not, with devices or without, without windows and registered
//           memory, and used by nobody else while a commit runs. Calls on streams of a device are
//           to be waited for before the commit, which an error in one of them makes fail.
// Ordering: construction and commit() are collective. Between commits the caller may use comm()
//           and across() as it likes; both belong to one epoch, across() is another after it.
// Threads:  one at a time.
// Errors:   throws Error. kRanksDiffer: ranks commit different steps, or describe themselves so
//           that replicas cannot be told apart. kCommunication: this rank's replica is broken, all
//           who had the state are dead, or the recovery took too long; abort the communicator then
//           (a destroy would be a call that the others meet).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tutti/runtime/error.h"

namespace tutti::runtime {

/// Where a rank is. For tests that kill, hold or fail a rank there, and for traces.
enum class StepInstant {
  kWorked,      // this rank's work of the step is done; no word of the commit was sent
  kCommitted,   // this rank has seen that all have committed, and told nobody
  kEdited,      // an edit has succeeded here; the roll call has not begun
  kRollCalled,  // the members know the step to go on with
};

struct StepGroupSpec {
  int shards = 1;        // ranks of each replica; equal on all ranks
  int64_t replica = -1;  // this rank's: 0 or more. -1: rank / shards, or of newcomers without mates
                         // a number that nobody else has
  int shard = -1;        // this rank's place in its replica; -1: rank % shards
  bool joins = false;    // the communicator is from tuttiCommJoin()
  uint64_t recovery_ns = 300'000'000'000;  // the longest that edits may take after a failure
  uint64_t newcomers_ns = 10'000'000'000;  // the longest wait for newcomers that were announced
  /// Called at each instant, in the calling thread. If it returns false, the rank does what it
  /// would do if a peer had died there.
  std::function<bool(StepInstant)> at_instant;
};

struct StepMember {
  tuttiMemberId id{};
  int64_t replica = 0;
  int shard = 0;
  bool ready = true;    // it has the state, or has said that it has caught up
  bool counted = true;  // all ranks of its replica are ready
};

/// A committed step: equal on all ranks but for `rank` and `runs`.
struct StepReport {
  int64_t step = -1;
  uint32_t epoch = 0;
  int rank = 0;
  std::vector<StepMember> members;  // who took part, by rank
  int64_t divisor = 0;              // replicas that are counted
  int runs = 1;                     // how often this rank ran the step
};

enum class StepOutcome {
  kCommitted,  // the step counts: report() says who took part
  kAgain,      // the members have changed: run the step again, then commit
};

class TUTTI_RUNTIME_API StepGroup {
 public:
  explicit StepGroup(tuttiComm_t comm, StepGroupSpec spec = {});
  ~StepGroup();
  StepGroup(const StepGroup&) = delete;
  StepGroup& operator=(const StepGroup&) = delete;

  tuttiComm_t comm() const { return comm_; }
  /// The ranks with this rank's place in their replicas, by rank; comm() where replicas have one
  /// rank.
  tuttiComm_t across() const { return across_; }
  /// The step that runs now: 0, 1, 2 ...; a newcomer begins with that of the others.
  int64_t step() const { return committed_ + 1; }
  uint32_t epoch() const { return epoch_; }
  int rank() const { return rank_; }
  /// The members of the present epoch, by rank.
  const std::vector<StepMember>& members() const { return members_; }
  int64_t divisor() const;
  /// Whether this rank is.
  bool counted() const { return members_[static_cast<size_t>(rank_)].counted; }

  /// The end of a step's work. `worked` is false if a call of this step failed here; then, or if a
  /// member is gone, the members are edited. `fingerprint` of what the step did must be equal on
  /// all ranks.
  StepOutcome commit(bool worked, uint64_t fingerprint = 0);
  /// Does the work of a step, which may throw, and commits it; if members have changed, again. Of
  /// the work's errors those that a lost member explains are not thrown on.
  const StepReport& run(const std::function<void()>& work, uint64_t fingerprint = 0);
  const StepReport& report() const { return report_; }

  /// This rank has the state of the steps so far: it counts from the next step on.
  void caught_up() { ready_ = true; }
  /// So many newcomers are about to join behind the next commit; several ranks may say it, the
  /// largest number holds. If they do not come, the group goes on without them.
  void expect_newcomers(int newcomers);

 private:
  enum class EditEnd { kMade, kFailed, kNobodyCame };
  struct CommitWords;

  void found();
  bool at(StepInstant instant) const { return !spec_.at_instant || spec_.at_instant(instant); }
  bool exchange_words(uint64_t fingerprint, CommitWords& said);
  void seal(const CommitWords& said);
  void admit(int newcomers);
  void recover();
  EditEnd edit(const tuttiEdit_t& edit);
  bool call_roll(uint64_t limit_ns);
  void read_roll(const std::vector<int64_t>& said);
  bool all_gather(const std::vector<int64_t>& mine, std::vector<int64_t>& all, uint64_t limit_ns);
  std::vector<int> broken_replicas() const;
  void count_replicas();
  bool make_across();
  void drop_across();
  StepReport describe() const;

  tuttiComm_t comm_;
  tuttiComm_t across_ = nullptr;
  StepGroupSpec spec_;
  int rank_ = 0;
  uint32_t epoch_ = 0;
  int64_t committed_ = -1;  // the last step that counts
  bool is_new_ = false;     // it has never seen a roll call, and joins
  bool ready_ = false;      // said in the next commit
  int newcomers_ = 0;       // announced in the next commit
  int runs_ = 0;
  std::vector<StepMember> members_;
  StepReport report_;
};

}  // namespace tutti::runtime
