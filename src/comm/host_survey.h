// Measures what calls cost among the ranks of one host while their communicator is made: a step, a
// row of short messages one way, and an all_to_all in both ways, through the staging ring and by
// reading the peers' memory (select::CrowdTimes).
//
// It runs no plans: calls, their numbers, and what the flight recorder sees of them begin with the
// user's. Ranks talk by words in the first page of the ring of lane 0, which no call has used yet,
// and none does before all others have read them for the last time; behind it lie their frames,
// whose memory is given back at the end. Whatever is decided, such as
// whether there is time for longer messages, follows from numbers that are the sum over all ranks,
// so all do the same and end with the same.
//
// Owns: buffers while it measures. Threads: one. Errors: a peer that is gone or failed meanwhile,
// or does not come in time; no memory. Units: nanoseconds, bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/exec/call_state.h"
#include "src/select/crowd_times.h"

namespace tutti::comm {

/// The ranks that measure: all of a communicator, on one host, and not of one process.
struct SurveyedRanks {
  std::vector<exec::Peer> peers;  // by rank; this rank's, too
  int rank = 0;
  int cores = 1;       // that they share
  uint32_t spins = 0;  // of a wait, as calls have them
  bool reads = false;  // every two of them may read each other's memory
  uint64_t ring_bytes = 0;
  std::function<std::string(int)> name_of;  // in messages
};

class HostSurvey {
 public:
  /// No longer messages are measured once it is used up; what has begun is ended.
  static constexpr uint64_t kTimeNs = 6'000'000;
  static constexpr uint64_t kLeastBytes = 64 << 10, kMostBytes = 4 << 20;
  static constexpr int kMostRanks = 1024;

  /// Both are kept by reference.
  HostSurvey(const SurveyedRanks& ranks, const WaitLimit& wait_limit);

  /// Equal on all ranks, which all call it.
  Result<select::CrowdTimes> measure();
  /// Then: calls of one length took very different times, as beside other work, so that the numbers
  /// are not worth keeping, and say nothing of single copies. Equal on all ranks.
  bool was_disturbed() const { return was_disturbed_; }

 private:
  struct Words;

  int ranks() const { return static_cast<int>(all_.peers.size()); }
  Words& words_of(int rank) const;
  std::byte* frame_of(int rank, uint64_t slice) const;
  /// The others, from the next one on, so that not all are at one rank at a time.
  int other(int i) const { return (all_.rank + 1 + i) % ranks(); }

  Status wait(int peer, const std::function<bool(const Words&)>& has_come);
  Status meet();
  Status leave();
  Result<double> add_up(double mine);
  Status steps(double& median_ns);
  Status row(double& best_ns);
  Status staged(uint64_t bytes);
  Status single(uint64_t bytes);
  using Way = Status (HostSurvey::*)(uint64_t bytes);
  Status time_of(Way way, uint64_t bytes, double& best_ns);
  Status copies(select::CrowdTimes& found);

  const SurveyedRanks& all_;
  const WaitLimit& wait_limit_;
  uint64_t frame_bytes_ = 0;
  uint64_t met_ = 0, slices_ = 0, told_ = 0;
  uint32_t sums_ = 0;
  bool is_disturbed_ = false;  // of this rank, so far
  bool was_disturbed_ = false;
  std::byte *send_ = nullptr, *recv_ = nullptr;
};

}  // namespace tutti::comm
