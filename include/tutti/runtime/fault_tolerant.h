// An all_reduce that survives: the sum or the average over the replicas that live, of whatever a
// step reduces, with one agreement at the step's end on who took part (FTAR of NCCLX,
// arXiv:2510.20171; what is public of it is a ring over the members that a host thread keeps).
//
//   ft.all_reduce(gradient 1 ..)   begins, behind the backward pass
//   ft.all_reduce(gradient 2 ..)
//   report = ft.step_commit()      waits; now all results count, on all survivors, or a rank died:
//                                  then all calls run again among those who live, until they count
//   optimizer step                 the average is over report.divisor replicas
//
// Exact: replicas that die, results that are kept until a commit, commits that name their epoch.
// Ours: the agreement is one 8-byte all_gather a step, and calls are Tutti's own all_reduces, so
// their algorithms, links and bits are those of the library.
//
// Results:  valid once step_commit() has returned, and equal to the bit on all ranks. Before that a
//           result may change: do not use it, and touch parameters only afterwards.
// Memory:   of the host, or of the device of `spec.stream`. Out of place the caller keeps input and
//           result until the commit, and does not write to them. In place the library keeps a copy
//           of the input until then: as many bytes as the calls of a step that are in place, from
//           the first step on, of a device in blocks of 8 MiB and more; without that room the call
//           throws kInfeasible before it begins. A newcomer keeps zeros, as many as its longest
//           call has.
// Types:    sums: all that the library adds. Averages: integers, rounded toward zero, and floats of
//           16 to 64 bits. While newcomers are not counted, floats of 32 and 64 bits are divided by
//           the divisor before they are added. The host divides sums of integers, and multiplies
//           the library's averages of floats of 16 bits by what is missing, which rounds once more:
//           these cross from a device's memory to it and back. To spare that, sum, and divide by
//           the report's divisor where the gradients are used.
// Joining:  a newcomer contributes zeros, whatever it passes, and gets all results; so it can apply
//           them to a state that it still loads. It is not part of the divisor until it has caught
//           up (StepGroup says how ranks join).
// Ordering: all ranks make the same calls in every step. Calls begin in this order behind each
//           other: on a HOST stream of this object or, with `spec.stream`, behind what that holds.
//           Work that the caller puts into it behind a call must not use the result before the
//           commit.
//           The commit waits for the calls; none of it may be captured into a graph.
// Threads:  one at a time.
// Errors:   throws Error, as StepGroup does. A call that no member could make, such as a type that
//           cannot be added, throws at once and may be left out by all ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tutti/runtime/step_group.h"
#include "tutti/runtime/units.h"

namespace tutti::runtime {

struct FaultTolerantSpec {
  StepGroupSpec group;
  bool deterministic = false;        // reduce in the canonical order of the members
  Bytes most_kept{kEverythingKept};  // the most bytes of copies that calls in place may take
  /// BLOCKING: buffers are the host's. A stream of the communicator's device: they are that
  /// device's, or pinned. It stays the caller's, and must live longer.
  tuttiStream_t stream = tuttiBlocking();

  static constexpr int64_t kEverythingKept = INT64_MAX;
};

class StepMemory;

class TUTTI_RUNTIME_API FaultTolerantAllReduce {
 public:
  /// Collective over the communicator, which stays the caller's and must live longer.
  explicit FaultTolerantAllReduce(tuttiComm_t comm, FaultTolerantSpec spec = {});
  /// Waits for calls that no commit waited for.
  ~FaultTolerantAllReduce();

  /// Begins to reduce `count` elements over the replicas: tuttiSum or tuttiAvg. In place: send ==
  /// recv; other overlaps are refused. Returns at once. A call that fails because somebody died is
  /// the commit's affair, and no error here.
  void all_reduce(const void* send, void* recv, int64_t count, tuttiDataType_t type,
                  tuttiRedOp_t op = tuttiAvg);
  /// The end of the step, which may have no calls at all: its results count when this returns.
  StepReport step_commit();

  /// Where this rank is in its group; announces newcomers, and says that this rank has caught up.
  StepGroup& group() { return group_; }
  int64_t step() const { return group_.step(); }
  /// The bytes that copies of inputs take now.
  Bytes kept() const { return kept_; }

 private:
  struct KeptCall;

  void begin(KeptCall& call);
  void begin(KeptCall& call, tuttiRedOp_t op);
  void note_failure(KeptCall& call, tuttiResult_t result, const char* what);
  bool wait_for_calls();
  void keep_input(KeptCall& call);
  const void* input_of(const KeptCall& call) const;
  uint64_t fingerprint() const;

  StepGroup group_;
  FaultTolerantSpec spec_;
  std::unique_ptr<StepMemory> memory_;
  std::vector<std::unique_ptr<KeptCall>> calls_;
  size_t open_ = 0;  // calls of this step; what is behind them has memory of earlier steps
  Bytes kept_{0};
};

}  // namespace tutti::runtime
