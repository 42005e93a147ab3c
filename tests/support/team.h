// Ranks of one job: forked processes, each with one or more ranks as threads, and a watchdog.
//
// Every process gets its environment before its first call of the library, so a job may differ from
// the one before it in any variable.
// Owns:    the processes and the board; when run_team returns, no process is left.
// Threads: requires that the caller has no other thread, because it forks.
// Units:   times in nanoseconds of the monotonic clock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "include/tutti/tutti.h"

namespace tutti::testing_support {

inline constexpr int kMaxRanks = 64;

uint64_t now_ns();
void sleep_ns(uint64_t duration_ns);

enum class RankState : uint32_t { kRunning = 0, kDone, kFailed };

/// A rank's state for the watchdog, in memory that all processes share.
struct RankSlot {
  std::atomic<RankState> state;
  std::atomic<uint64_t> step;  // a number the body understands
  std::atomic<uint64_t> failed_at_ns;
  std::atomic<int> process;
  char message[2048];
};

struct Board {
  tuttiUniqueId id;
  std::atomic<uint32_t> has_id;
  std::atomic<uint32_t> id_failed;
  std::atomic<uint64_t> numbers[kMaxRanks];  // for whatever the body wants to tell
  std::atomic<uint32_t> arrived;             // Member::meet
  RankSlot slots[kMaxRanks];
};

/// One rank as its body sees it.
class Member {
 public:
  Member(Board& board, int rank, int ranks) : board_(board), rank_(rank), ranks_(ranks) {}

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Board& board() { return board_; }

  void at(uint64_t step) { board_.slots[rank_].step.store(step, std::memory_order_relaxed); }
  /// Keeps the first message.
  void fail(const std::string& message);
  /// Waits, sleeping, until every rank has called it the same number of times; false if one failed.
  bool meet();
  /// Kills this process, of one rank, as the test has it: the team takes that for no failure, and
  /// its report names the signal.
  [[noreturn]] void die();
  /// The job's id, made by rank 0; false after a failure, which has been reported.
  bool take_id(tuttiUniqueId& id);

 private:
  Board& board_;
  int rank_;
  int ranks_;
  uint32_t meetings_ = 0;
};

using Environment = std::map<std::string, std::string>;

enum class Network : uint8_t {
  kDefault,
  kTcp,    // and nothing else
  kMixed,  // two hosts: the first half of the processes and the others
};
const char* name_of(Network network);
/// The environment that one process of so many must have.
Environment environment_of(Network network, int process, int processes);

struct TeamShape {
  std::vector<int> process_of;           // of each rank; processes are numbered from 0
  std::vector<Environment> environment;  // of each process; missing: nothing is changed

  static TeamShape threads(int ranks);
  static TeamShape processes(int ranks);
  static TeamShape of(int ranks, bool threads, Network network);

  /// Adds to what the processes set already.
  void use(Network network);
  /// For every process.
  void set(const std::string& name, const std::string& value);

  int ranks() const { return static_cast<int>(process_of.size()); }
  int process_count() const;
};

struct TeamResult {
  bool ok = true;
  bool hung = false;
  std::string report;     // of the first failure, and of what each rank was in
  int first_failed = -1;  // rank
  uint64_t first_step = 0;
};

using Body = std::function<void(Member&)>;
using StepName = std::function<std::string(uint64_t step)>;

/// Runs the body for every rank. A rank that has not finished after `limit_ns` is reported with the
/// name of its step, and every process is killed. That happens sooner behind a failure, and behind
/// a process that died, unless its ranks were done before (Member::die). A failure while the
/// machine stood still for seconds says nothing (metronome.h), so the team runs again, a few times.
TeamResult run_team(const TeamShape& shape, const Body& body, const StepName& name,
                    uint64_t limit_ns);

}  // namespace tutti::testing_support
