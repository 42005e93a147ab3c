// The calls that the ranks' kernels have begun, compared. No thread of a host takes part in a run
// of a graph that is one kernel, so the kernel itself writes which call it is (FusedWords::begun).
// Calls of kernels have numbers, which are equal on all ranks, whether a graph or the caller made
// them: two kernels of one number that are of different calls would wait for each other in vain, or
// take each other's values.
//
// Owns: nothing; the words outlive it. Threads: any. Errors: a CallDifference. Of calls that are
// over for longer nothing is known, so a difference may be missed; none is made up.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/diagnosis/described_call.h"
#include "src/engines/streams/call_comparison.h"
#include "src/engines/streams/fused_words.h"

namespace tutti::engines::streams {

class BegunKernels {
 public:
  struct RanksOfKernels {
    std::vector<const FusedWords*> words;  // by rank
    int rank = 0;
    std::function<std::string(int)> name_of;  // a rank, in messages
    /// A call with this signature that the rank has made or captured, if it is still known.
    std::function<std::optional<diagnosis::DescribedCall>(size_t rank, uint32_t signature)>
        find_call;
  };
  explicit BegunKernels(RanksOfKernels ranks) : ranks_(std::move(ranks)) {}

  /// The first of the last calls that differs from a peer's of the same number.
  std::optional<CallDifference> find_difference() const;
  /// The call of this rank of which such a word tells (FusedWords::waiting).
  std::string describe(uint64_t word) const { return describe(own(), word); }
  /// A call in which this rank's kernel waits for a peer, or a peer's for this rank's; else "".
  std::string describe_wait() const;

 private:
  size_t own() const { return static_cast<size_t>(ranks_.rank); }
  std::string describe(size_t rank, uint64_t word) const;
  CallDifference describe_difference(uint32_t number, size_t peer) const;

  const RanksOfKernels ranks_;
};

}  // namespace tutti::engines::streams
