// The calls that a rank puts into streams one by one: announced to the peers, compared with theirs,
// and watched until the streams are past them. How they are put there is the engine's affair.
//
// All of it goes by words in the arenas of the ranks of a host (exec::DevicePage): streams raise
// their rank's counters and wait for others'. Calls of all ranks have numbers, which are equal on
// all of them; these and groups of transfers have places in the order of this rank's streams.
//
// Owns:    the watch. The options outlive it.
// Threads: announce(), declare(), keep() one at a time; look() by the watchdog; fail() any.
// Errors:  of the communicator, by DeviceRankOptions::fail.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/mutex.h"
#include "src/engines/streams/call_comparison.h"
#include "src/engines/streams/capture_comparison.h"
#include "src/engines/streams/device_engine.h"
#include "src/engines/streams/stream_watch.h"
#include "src/engines/streams/watchdog.h"
#include "src/exec/stream_rank.h"

namespace tutti::engines::streams {

class EagerCalls final : public Watched, private StreamWords {
 public:
  /// `pair_bytes`: DeviceRank::pair_bytes().
  EagerCalls(const exec::DeviceRankOptions& options, uint64_t pair_bytes);
  EagerCalls(const EagerCalls&) = delete;
  EagerCalls& operator=(const EagerCalls&) = delete;

  /// A peer that gives up because of these follows from them, too, and what an engine finds out
  /// about a run may be due to what was captured; they outlive look().
  void compare_also(const CallComparison& others, const CaptureComparison& captures) {
    others_ = &others;
    captures_ = &captures;
  }
  /// This communicator, for calls that are watched elsewhere. Outlived by this.
  WatchOwner owner();

  /// Looked at, and let go on after a failure; it outlives the last look(). Before the first call.
  void use(DeviceEngine& engine) { engines_.push_back(&engine); }
  /// From now on engines may be at work at any time, since graphs have calls of theirs: it is
  /// looked whether one has passed its deadline, and a failure ends them.
  void patrol();
  bool patrols() const override { return patrols_.load(std::memory_order_relaxed); }
  /// The peers see what is put into a stream next. An error has failed the communicator.
  Status announce(const exec::StreamedCall& call);
  Status announce(const exec::StreamedTransfers& call);
  /// As exec::DeviceRank's.
  Status declare(uint32_t signature, const diagnosis::DescribedCall& described);
  Status declare(std::span<const exec::Transfer> transfers);
  const CallComparison& comparison() const { return comparison_; }
  /// Of what was announced last.
  uint64_t number() const { return comparison_.number(); }
  /// The value that the arena's `finished` has once the streams are past the next call.
  uint64_t next_place() { return watch_.next_place(); }
  /// That call is in a stream.
  void keep(PendingCall call);
  void fail(Status why, diagnosis::Cause cause);

  /// Whether some call is not over, or a peer may still call something else.
  bool look() override;
  /// Whether some call is not over, now.
  bool has_calls() { return watch_.look(); }
  /// A rank that the oldest call that is not over waits for, if it waits for one.
  std::optional<int> find_late() { return watch_.find_late(); }
  /// As StreamWatch's.
  void leak() { watch_.leak(); }

 private:
  const exec::ArenaView& mine() const { return options_.arenas[rank_]; }
  Status announce(uint32_t signature, const diagnosis::DescribedCall& described);
  Status differ(CallDifference found);
  void publish();
  bool awaits_peers();
  void heed_engines();
  int find_furthest_behind(int late) const;
  std::optional<int> find_late_peer(const std::vector<AwaitedWord>& awaited) const;
  std::string story_of(int rank, uint64_t number) const;

  // StreamWords
  uint64_t finished() const override;
  std::optional<int> find_late(const PendingCall& call) const override;
  void tell_wait(uint64_t number, std::optional<int> late) override;
  int find_culprit(int late) const override;
  std::string describe_unkept() const override;
  std::string reason(const PendingCall& call, std::optional<int> late) const override;
  std::optional<diagnosis::Loss> find_loss() const override;
  std::optional<CallDifference> find_difference() const override;
  bool may_find_difference() const override;
  void release() override;

  const exec::DeviceRankOptions& options_;
  const size_t rank_;
  CallComparison comparison_;
  const CallComparison* others_ = nullptr;
  const CaptureComparison* captures_ = nullptr;
  std::vector<DeviceEngine*> engines_;
  std::atomic<bool> patrols_{false};
  StreamWatch watch_;
  std::atomic<uint64_t> highest_{0};  // value of a counter that any stream waits for
  Mutex mutex_;
  // Of what was declared, while some peer may call something else.
  bool awaits_peers_ TUTTI_GUARDED_BY(mutex_) = false;
  std::vector<exec::Transfer> declared_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti::engines::streams
