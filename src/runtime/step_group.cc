#include "tutti/runtime/step_group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "src/runtime/fingerprint.h"
#include "src/runtime/index.h"
#include "src/runtime/loss.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

constexpr uint64_t kRollCallNs = 30'000'000'000;
constexpr auto kBetweenTries = std::chrono::milliseconds(20);
constexpr int kMostNewcomers = 0xffff;

/// How long is left of a recovery.
class RecoveryTime {
 public:
  explicit RecoveryTime(uint64_t limit_ns)
      : end_(std::chrono::steady_clock::now() + std::chrono::nanoseconds(limit_ns)) {}
  bool over() const { return left_ns() == 0; }
  uint64_t left_ns() const {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
        end_ - std::chrono::steady_clock::now());
    return left.count() > 0 ? static_cast<uint64_t>(left.count()) : 0;
  }

 private:
  std::chrono::steady_clock::time_point end_;
};

/// Waits for a communicator that does not block.
tuttiResult_t settled(tuttiComm_t comm, tuttiResult_t result) {
  while (result == tuttiInProgress) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    tuttiResult_t state = tuttiSuccess;
    if (tuttiCommGetAsyncError(comm, &state) != tuttiSuccess) return tuttiInternalError;
    if (state != tuttiInProgress) return state;
  }
  return result;
}

[[noreturn]] void throw_lost(const std::string& sentence, tuttiResult_t result = tuttiRemoteError) {
  throw Error(ErrorKind::kCommunication, sentence, result);
}

[[noreturn]] void throw_differing(const std::string& sentence) {
  throw Error(ErrorKind::kRanksDiffer, sentence, tuttiInvalidUsage);
}

/// A number that no other member has, from its id.
int64_t number_of(const tuttiMemberId& id) {
  Fingerprint print;
  for (const unsigned char byte : id.bytes) print.add(byte);
  return static_cast<int64_t>(print.value() >> 1);
}

/// The words of a roll call, of one rank.
enum RollWord : int64_t {
  kRollCommitted,
  kRollReplica,
  kRollShard,
  kRollFlags,
  kRollShards,
  kRollWords
};
constexpr int64_t kIsReady = 1, kIsNew = 2, kSaysReady = 4;

}  // namespace

/// The words of all ranks in one commit: 32 bits of what each did, then flags.
struct StepGroup::CommitWords {
  static constexpr int kReadyBit = 32, kNewcomersBit = 33;
  std::vector<int64_t> all;

  static int64_t word(uint64_t print, bool ready, int newcomers) {
    return static_cast<int64_t>((print & 0xffffffffu) | uint64_t{ready} << kReadyBit |
                                static_cast<uint64_t>(newcomers) << kNewcomersBit);
  }
  uint32_t print(size_t rank) const { return static_cast<uint32_t>(all[rank]); }
  bool says_ready(size_t rank) const { return (all[rank] >> kReadyBit & 1) != 0; }
  int newcomers() const {
    int64_t most = 0;
    for (const int64_t word : all) most = std::max(most, word >> kNewcomersBit & kMostNewcomers);
    return static_cast<int>(most);
  }
};

StepGroup::StepGroup(tuttiComm_t comm, StepGroupSpec spec) : comm_(comm), spec_(std::move(spec)) {
  require(spec_.shards >= 1, spec_.shards, " shards; a replica has 1 rank or more");
  require(spec_.replica >= -1, "replica ", spec_.replica, " is negative; give 0 or more");
  require(spec_.shard >= -1 && spec_.shard < spec_.shards, "shard ", spec_.shard, " of ",
          spec_.shards, "; give 0 to ", spec_.shards - 1);
  require(!spec_.joins || spec_.shards == 1 || (spec_.replica >= 0 && spec_.shard >= 0),
          "a newcomer to replicas of ", spec_.shards,
          " ranks must say which replica and shard it is");
  int ranks = 0;
  expect_success(tuttiCommUserRank(comm, &rank_), comm, "tuttiCommUserRank");
  expect_success(tuttiCommCount(comm, &ranks), comm, "tuttiCommCount");
  require(spec_.joins || ranks % spec_.shards == 0, ranks, " ranks are no replicas of ",
          spec_.shards, "; give a number of ranks that `shards` divides");
  found();
}

// A destroy is a call that others would meet in the middle of a step.
StepGroup::~StepGroup() { drop_across(); }

void StepGroup::found() {
  is_new_ = spec_.joins;
  if (spec_.shards == 1) spec_.shard = 0;
  if (spec_.replica < 0 && !spec_.joins) spec_.replica = rank_ / spec_.shards;
  if (spec_.shard < 0) spec_.shard = rank_ % spec_.shards;
  if (spec_.replica < 0) {
    tuttiMemberId id;
    expect_success(tuttiCommGetMemberId(comm_, rank_, &id), comm_, "tuttiCommGetMemberId");
    spec_.replica = number_of(id);
  }
  members_.assign(runtime::at(rank_ + 1), {});
  members_[runtime::at(rank_)].ready = !spec_.joins;
  if (!call_roll(kRollCallNs) || !broken_replicas().empty() || !make_across()) recover();
}

int64_t StepGroup::divisor() const {
  const auto counted = std::count_if(members_.begin(), members_.end(),
                                     [](const StepMember& member) { return member.counted; });
  return counted / spec_.shards;
}

void StepGroup::expect_newcomers(int newcomers) {
  require(newcomers >= 0 && newcomers <= kMostNewcomers, newcomers, " newcomers; give 0 to ",
          kMostNewcomers);
  require(newcomers % spec_.shards == 0, newcomers, " newcomers are no replicas of ", spec_.shards,
          " ranks");
  newcomers_ = newcomers;
}

StepReport StepGroup::describe() const {
  return {step(), epoch_, rank_, members_, divisor(), runs_};
}

StepOutcome StepGroup::commit(bool worked, uint64_t fingerprint) {
  ++runs_;
  CommitWords said;
  worked = at(StepInstant::kWorked) && worked;
  if (worked && exchange_words(fingerprint, said) && at(StepInstant::kCommitted)) {
    report_ = describe();
    seal(said);
    if (said.newcomers() > 0) admit(said.newcomers());
    return StepOutcome::kCommitted;
  }
  const StepReport was = describe();
  recover();
  if (committed_ < was.step) return StepOutcome::kAgain;
  // Somebody saw it committed, so all calls of the step had completed on this rank.
  report_ = was;
  runs_ = 0;
  return StepOutcome::kCommitted;
}

const StepReport& StepGroup::run(const std::function<void()>& work, uint64_t fingerprint) {
  for (;;) {
    bool worked = true;
    try {
      work();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCommunication || !is_loss(error.result())) throw;
      worked = false;
    }
    if (commit(worked, fingerprint) == StepOutcome::kCommitted) return report_;
  }
}

bool StepGroup::exchange_words(uint64_t fingerprint, CommitWords& said) {
  Fingerprint print;
  for (const int64_t value : {int64_t{epoch_}, step(), static_cast<int64_t>(fingerprint)}) {
    print.add(value);
  }
  const int64_t mine = CommitWords::word(print.value(), ready_, newcomers_);
  if (!all_gather({mine}, said.all, 0)) return false;
  for (size_t rank = 0; rank < said.all.size(); ++rank) {
    if (said.print(rank) == said.print(runtime::at(rank_))) continue;
    throw_differing(words("rank ", rank_, " commits step ", step(), " and rank ", rank,
                          " another one, or the same with other calls; every rank makes the "
                          "same calls in every step"));
  }
  return true;
}

void StepGroup::seal(const CommitWords& said) {
  committed_ = step();
  runs_ = 0;
  ready_ = false;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    members_[rank].ready = members_[rank].ready || said.says_ready(rank);
  }
  count_replicas();
}

/// A replica counts when all of its ranks are ready.
void StepGroup::count_replicas() {
  std::set<int64_t> waiting;
  for (const StepMember& member : members_) {
    if (!member.ready) waiting.insert(member.replica);
  }
  for (StepMember& member : members_) member.counted = !waiting.contains(member.replica);
}

void StepGroup::admit(int newcomers) {
  tuttiEdit_t wish = TUTTI_EDIT_INITIALIZER;
  wish.remove_dead = 1;
  wish.newcomers = newcomers;
  wish.timeout_ns = spec_.newcomers_ns;
  const EditEnd end = edit(wish);
  if (end != EditEnd::kFailed) newcomers_ = 0;
  const bool stands = end == EditEnd::kMade && at(StepInstant::kEdited) && call_roll(kRollCallNs) &&
                      broken_replicas().empty() && make_across();
  // Those who missed the commit have asked for another edit.
  if (!stands) recover();
}

/// Edits until the members that are left know each other.
void StepGroup::recover() {
  const RecoveryTime time(spec_.recovery_ns);
  std::vector<int> broken;
  for (;;) {
    if (time.over()) {
      throw_lost(words("the members could not go on within ", spec_.recovery_ns,
                       " ns; the last edit says: ", tuttiGetLastError(comm_)),
                 tuttiTimeout);
    }
    // Ends what the others wait for.
    tuttiCommRevoke(comm_, TUTTI_REVOKE_DEFAULT);
    tuttiEdit_t wish = TUTTI_EDIT_INITIALIZER;
    wish.remove_dead = broken.empty() ? 1 : 0;
    wish.removed = broken.empty() ? nullptr : broken.data();
    wish.removed_count = static_cast<int>(broken.size());
    wish.abort = 1;
    wish.timeout_ns = time.left_ns();
    const bool made = edit(wish) == EditEnd::kMade;
    broken.clear();
    if (!made || !at(StepInstant::kEdited) || !call_roll(std::min(time.left_ns(), kRollCallNs))) {
      std::this_thread::sleep_for(kBetweenTries);
      continue;
    }
    broken = broken_replicas();
    if (broken.empty() && make_across()) break;
  }
  at(StepInstant::kRollCalled);
}

StepGroup::EditEnd StepGroup::edit(const tuttiEdit_t& edit) {
  drop_across();
  const tuttiResult_t result = settled(comm_, tuttiCommEdit(comm_, &edit, nullptr));
  if (result == tuttiSuccess) return EditEnd::kMade;
  // Invalid usage: the members wanted different edits.
  if (!is_loss(result) && result != tuttiInvalidUsage) {
    expect_success(result, comm_, "tuttiCommEdit");
  }
  return result == tuttiTimeout ? EditEnd::kNobodyCame : EditEnd::kFailed;
}

/// False if a member is lost meanwhile.
bool StepGroup::all_gather(const std::vector<int64_t>& mine, std::vector<int64_t>& all,
                           uint64_t limit_ns) {
  int ranks = 0;
  expect_success(tuttiCommCount(comm_, &ranks), comm_, "tuttiCommCount");
  all.assign(mine.size() * runtime::at(ranks), 0);
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  call.collective = tuttiCollAllGather;
  call.send = mine.data();
  call.recv = all.data();
  call.count = mine.size();
  call.type = tuttiInt64;
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.timeout_ns = limit_ns;
  const tuttiResult_t result = tuttiSubmit(&call, comm_, tuttiBlocking(), &options, nullptr);
  if (is_loss(result)) return false;
  expect_success(result, comm_, "the commit of a step");
  return true;
}

bool StepGroup::call_roll(uint64_t limit_ns) {
  expect_success(tuttiCommUserRank(comm_, &rank_), comm_, "tuttiCommUserRank");
  expect_success(tuttiCommGetEpoch(comm_, &epoch_), comm_, "tuttiCommGetEpoch");
  bool was_ready = !spec_.joins;
  for (const StepMember& member : members_) {
    if (member.replica == spec_.replica && member.shard == spec_.shard) was_ready = member.ready;
  }
  std::vector<int64_t> mine(kRollWords), all;
  mine[kRollCommitted] = committed_;
  mine[kRollReplica] = spec_.replica;
  mine[kRollShard] = spec_.shard;
  mine[kRollShards] = spec_.shards;
  mine[kRollFlags] =
      (was_ready ? kIsReady : 0) | (is_new_ ? kIsNew : 0) | (ready_ ? kSaysReady : 0);
  if (!all_gather(mine, all, limit_ns)) return false;
  read_roll(all);
  return true;
}

void StepGroup::read_roll(const std::vector<int64_t>& said) {
  int64_t committed = -1;
  for (size_t from = 0; from < said.size(); from += kRollWords) {
    if (said[from + kRollShards] != spec_.shards) {
      throw_differing(words("rank ", rank_, " has replicas of ", spec_.shards, " ranks and rank ",
                            from / kRollWords, " of ", said[from + kRollShards]));
    }
    committed = std::max(committed, said[from + kRollCommitted]);
  }
  members_.clear();
  std::set<std::pair<int64_t, int>> places;
  for (size_t from = 0; from < said.size(); from += kRollWords) {
    StepMember member;
    const int64_t flags = said[from + kRollFlags];
    const auto rank = static_cast<int>(members_.size());
    member.replica = said[from + kRollReplica];
    member.shard = static_cast<int>(said[from + kRollShard]);
    // Its word of a commit that others have seen holds.
    const bool was_heard =
        (flags & kSaysReady) != 0 && said[from + kRollCommitted] + 1 == committed;
    member.ready = (flags & kIsReady) != 0 || was_heard;
    expect_success(tuttiCommGetMemberId(comm_, rank, &member.id), comm_, "tuttiCommGetMemberId");
    if (!places.insert({member.replica, member.shard}).second) {
      throw_differing(words("two ranks are shard ", member.shard, " of replica ", member.replica,
                            "; rank ", rank, " is one of them"));
    }
    members_.push_back(member);
  }
  count_replicas();
  if (ready_ && committed == committed_ + 1) ready_ = false;
  committed_ = committed;
  is_new_ = false;
}

/// The ranks whose replica has lost a rank. Throws if this rank is one of them.
std::vector<int> StepGroup::broken_replicas() const {
  std::map<int64_t, int> sizes;
  for (const StepMember& member : members_) ++sizes[member.replica];
  std::vector<int> broken;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (sizes[members_[rank].replica] != spec_.shards) broken.push_back(static_cast<int>(rank));
  }
  if (sizes[spec_.replica] != spec_.shards) {
    throw_lost(words("replica ", spec_.replica, " has lost ", spec_.shards - sizes[spec_.replica],
                     " of its ", spec_.shards,
                     " ranks, and leaves: abort the communicator, and join with a whole replica"));
  }
  return broken;
}

bool StepGroup::make_across() {
  if (divisor() == 0) throw_lost("no replica is left that has the state; begin from a checkpoint");
  if (spec_.shards == 1) {
    across_ = comm_;
    return true;
  }
  const tuttiResult_t result =
      settled(comm_, tuttiCommSplit(comm_, spec_.shard, rank_, &across_, nullptr));
  if (result == tuttiSuccess && settled(across_, tuttiInProgress) == tuttiSuccess) return true;
  if (!is_loss(result)) expect_success(result, comm_, "tuttiCommSplit");
  drop_across();
  return false;
}

void StepGroup::drop_across() {
  if (across_ != comm_ && across_ != nullptr) tuttiCommAbort(across_);
  across_ = nullptr;
}

}  // namespace tutti::runtime
