// Ranks train alone, gossip in pairs now and then, more often late, and average all models once, at
// the end (A Single Merging Suffices).
//
//   step      1 ................................................ steps
//   gossip            |           |        |     |    |   |  | |
//   merge                                                         X
//
// Paper: A Single Merging Suffices, later On the Surprising Effectiveness of a Single Global
// Merging (arXiv:2507.06542). Known from its abstract: little gossip, a budget spent late, one
// global average.
// Reconstructed: where in time the budget goes (MergeBudget), and that gossip averages parameters.
//
// Owns: buffers of one model for gossip; merge_all() takes pieces of 256 KiB of each model at a
//       time. The rest is as optimizer.h says.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tutti/runtime/outer/noloco.h"
#include "tutti/runtime/outer/optimizer.h"
#include "tutti/runtime/units.h"

namespace tutti::runtime {

struct MergeSpec {
  double weight = 1;            // of this rank's model: 0 or more
  int64_t layout = 0;           // which parameters these are, in which version; equal on all ranks
  int members = 0;              // ranks of the whole training; 0: those of the communicator
  bool allows_partial = false;  // a merge without some members is wanted
};

struct MergeReport {
  std::vector<int> excluded;  // ranks whose models hold NaN or infinity, which never count
  bool is_partial = false;    // members were missing
};

/// The weighted mean of all models, on every rank: in fp64 and in rank order, rounded once. Ranks
/// whose models were excluded get it too. Collective. Throws Error for a negative or infinite
/// weight, for weights that sum to 0, for other layouts (kRanksDiffer), and where members are
/// missing.
TUTTI_RUNTIME_API MergeReport merge_all(tuttiComm_t comm, std::span<float> params,
                                        const MergeSpec& spec);

/// Where a number of bytes goes over `steps` steps: the merge behind the last one, and as many
/// rounds of gossip before as the rest pays for, at the steps steps * ((i + 1) / (rounds + 1)) ^
/// (1 / lateness).
struct MergeBudget {
  int64_t steps = 1000;
  Bytes total{0};
  Bytes round{0};       // what one round of gossip sends from each rank
  Bytes merge{0};       // what the merge sends from each rank
  double lateness = 3;  // 1: evenly; more: later
};
/// The steps with gossip, ascending. Throws Error if the budget does not pay for the merge.
TUTTI_RUNTIME_API std::vector<int64_t> gossip_steps(const MergeBudget& budget);

struct SingleMergeSpec {
  MergeBudget budget = {};  // round and merge are those of this model if they are 0
  uint64_t seed = 0;        // of the pairs
  OddRank odd = OddRank::kRefused;
  MergeSpec merge = {};
};

class TUTTI_RUNTIME_API SingleMerge final : public OuterOptimizer {
 public:
  SingleMerge(OuterGroup group, std::span<const float> params, const SingleMergeSpec& spec);
  ~SingleMerge() override;

  /// The models that the merge left out; empty before it.
  const MergeReport& merge_report() const;

 private:
  OuterReport at_boundary(int64_t step, std::span<float> params, bool commit) override;
  OuterReport take_rest(std::span<float> params) override;
  void join_group() override;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::runtime
