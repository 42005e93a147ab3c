// The runs of captured calls: announced to the peers, compared with theirs, and watched until they
// are over. How a call is put into a graph is the engine's affair; each run begins with a function
// of the host, which calls begin().
//
// While the communicator has failed, and when it is no more, look() stores into the words that the
// streams of this rank wait for a value beyond all, again and again, until the run is over: a
// living peer may still write its own.
//
// Runs that begin when the communicator is no more do nothing; their user is told. Of calls that no
// function of the host begins, the watchdog looks for them now and then.
//
// Owns:    the watch. The memory outlives it.
// Threads: begin() by one at a time, which may not wait; all else by any.
// Errors:  of the communicator, by WatchOwner::fail.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/mutex.h"
#include "src/engines/streams/call_comparison.h"
#include "src/engines/streams/captured_memory.h"
#include "src/engines/streams/stream_watch.h"
#include "src/engines/streams/watchdog.h"
#include "src/exec/transfer.h"

namespace tutti::engines::streams {

/// A call that a graph holds.
struct CapturedCall {
  uint32_t signature = 0;
  std::optional<diagnosis::DescribedCall> described;  // of a call of all ranks
  std::vector<exec::Transfer> transfers;
  std::vector<uint32_t> slots;  // of the transfers' first pieces
  std::vector<uint32_t> marks;  // exec::RegisteredTransfers'
  uint64_t timeout_ns = 0;      // of each run
  std::string what;
};

class CapturedRuns final : public Watched, private StreamWords {
 public:
  struct RunsOfRank {
    CapturedMemory memory;
    int rank = 0;
    uint64_t pair_bytes = 0;                  // as TransferBook's
    std::function<std::string(int)> name_of;  // a rank, in messages
    WatchOwner owner;
    std::function<void()> let_go;                      // what waits in a run beside the words
    std::function<void(const std::string&)> report{};  // to the log: calls that differ at capture
    std::function<uint64_t()> runs_alone_so_far{};     // DeviceEngine's, of all engines
    std::function<void()> ran_late{};                  // DeviceRankOptions's
  };
  explicit CapturedRuns(RunsOfRank parts);
  CapturedRuns(const CapturedRuns&) = delete;
  CapturedRuns& operator=(const CapturedRuns&) = delete;

  const CallComparison& comparison() const { return comparison_; }
  const CaptureComparison& captures() const { return captures_; }
  /// Before the call is put into that capture. Where a peer has captured another one, the log is
  /// told: the runs would fail.
  void announce_capture(const CaptureComparison::CapturedPart& part);
  /// A run of the call has come, which stays until the run is over.
  void begin(const CapturedCall& call);
  /// Whether a run has begun that is not over. Lets it go on where that is due.
  bool look() override;
  bool patrols() const override;
  /// A rank that the oldest run that is not over waits for, if it waits for one.
  std::optional<int> find_late_rank() { return watch_.find_late(); }
  /// The communicator is no more: graphs that are still there run in vain.
  void abandon();

 private:
  std::optional<CallDifference> announce(const CapturedCall& call);
  CapturedPage& page() const { return memory_.page(rank_); }
  void look_for_late_runs();

  // StreamWords
  uint64_t finished() const override;
  std::optional<int> find_late(const PendingCall& call) const override;
  std::string reason(const PendingCall& call, std::optional<int> late) const override;
  void release() override;

  const CapturedMemory memory_;
  const size_t rank_;
  const std::function<std::string(int)> name_of_;
  const std::function<void()> let_go_;
  const std::function<void(const std::string&)> report_;
  const std::function<uint64_t()> runs_alone_so_far_;
  const std::function<void()> ran_late_;
  CallComparison comparison_;
  CaptureComparison captures_;
  StreamWatch watch_;
  // Of runs when the communicator is no more.
  std::atomic<bool> is_over_{false}, has_late_run_{false}, told_late_run_{false};
  std::atomic<uint64_t> alone_at_end_{0};
  mutable Mutex mutex_;
  uint64_t place_ TUTTI_GUARDED_BY(mutex_) = 0;  // of the last run
};

}  // namespace tutti::engines::streams
