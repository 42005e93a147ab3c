// A v-collective as the runs it is made of.
//
// Where every rank knows all counts (all_gather_v, reduce_scatter_v) it is one. With private counts
// (all_to_all_v) slices, frames and cells still have to be equal on all ranks, so up to three runs
// follow one another, each an ordinary call of the whole group with a number of its own:
//   counts  an all_to_all of a few words. Both sides of every pair compare what they expect of each
//           other, and all ranks learn the longest share.
//   sizes   only if the schedule forwards: it runs over one word a block and so carries the size
//           of every block to whoever will hold it (schedule/single_assignment.h).
//   data
// Which runs follow is decided by what all ranks know alike, and each run is deadlock-free by
// itself, hence so is their sequence.
//
// Lifetime: the request and its vectors last until the call is finished. Errors: counts that differ
// between two ranks fail the communicator on both, with a message that names both. A peer's numbers
// that cannot be fail it too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/comm/planner.h"
#include "src/comm/request.h"

namespace tutti::comm {

class VectorCall {
 public:
  VectorCall(EnginePlans& planner, exec::HostExecutor& executor)
      : planner_(planner), executor_(executor) {}

  void begin(const Request& request, uint64_t deadline_ns);

  /// Something may be left to run after the present run, if that succeeded.
  bool open() const { return stage_ != RoundStage::kClosed; }
  /// That of the last begin().
  const Request& request() const { return request_; }

  /// The next plan to run once the run before is complete; `prepared` is null if that was all.
  struct PlanRun {
    const Prepared* prepared = nullptr;
    exec::Call call;
    bool carries_data = false;
  };
  Result<PlanRun> next();

 private:
  enum class RoundStage : uint8_t { kBegun, kCounts, kSizes, kData, kClosed };
  enum class RoundPurpose : uint32_t { kData = 0, kCounts, kSizes };

  /// The message of a rank to each other rank in the count round. Elements.
  struct Expectation {
    uint64_t sends = 0;     // to you
    uint64_t receives = 0;  // from you
    uint64_t longest = 0;   // of all my shares
  };

  Result<PlanRun> run_counts();
  Status read_counts();
  Result<PlanRun> run_sizes();
  Status read_sizes(const Prepared& prepared);
  Status fail(uint32_t blamed, const std::string& why);
  Result<PlanRun> run_data();
  PlanRun run_of(const Prepared& prepared, const void* send, void* recv,
                 RoundPurpose purpose) const;

  EnginePlans& planner_;
  exec::HostExecutor& executor_;
  Request request_;
  uint64_t deadline_ns_ = 0;
  RoundStage stage_ = RoundStage::kClosed;
  bool in_place_ = false;
  uint64_t longest_ = 0;
  std::vector<Expectation> told_, heard_;  // by rank
  const Prepared* sizes_round_ = nullptr;
  std::vector<uint64_t> delivered_;  // the size round's output, which is known already
  std::vector<uint64_t> sizes_;
};

}  // namespace tutti::comm
