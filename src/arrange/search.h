// The search for the arrangement of a job that takes the shortest step: exact, by branch and bound.
//
// All degrees that divide, micro-batches, chunks, ZeRO stages, sequence parallelism and computing
// again are one space; a way to cut the job that does not fit the memory is left out before
// anything is placed, so it never hides one that fits (NEST, MLSys 2026, which escalates ZeRO in
// the same way). Then axes are placed level by level. A partial placement is given up when its
// bound is no better than the ten best so far, so the result is that of trying everything. Where
// time runs out it is the best so far, and says so.
//
// Threads: one at a time. Units: nanoseconds, bytes. Errors: kInvalidArgument for a job that cannot
// be; kUnsupported with the reasons, and how often each applied, where nothing is left.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/arrange/step_price.h"

namespace tutti::arrange {

/// The parts of the answer that somebody has decided already.
struct FixedParts {
  std::array<std::optional<uint32_t>, kAxes> degrees;
  std::optional<uint32_t> micro_batch, chunks, zero;
  std::optional<bool> recomputed, sequence_parallel;
  std::optional<uint32_t> codec, outer_period;  // of those that the job allows; 0: none
};

struct SearchLimits {
  size_t keep = 10;
  std::function<bool()> is_over = [] { return false; };  // the time
};

struct Arranged {
  Arrangement arrangement;
  StepPrice price;
  double memory = 0;
};

struct ArrangementSearch {
  /// The fastest first; of those with equal degrees, codec and outer steps that lay the same axes
  /// on the outermost level only the fastest.
  std::vector<Arranged> best;
  uint64_t cuts = 0;    // ways to cut the job that divide and fit
  uint64_t priced = 0;  // arrangements whose exchanges were priced in full
  bool is_complete = true;
  std::vector<std::string> refused;  // "120: they do not fit the memory", the most frequent first
};

/// Every way to cut the job: arrangements whose axes are not placed yet, so that the innermost
/// level holds their whole degrees.
std::vector<Arrangement> ways_to_cut(const StepPricer& pricer, const FixedParts& fixed,
                                     std::vector<std::string>& refused);
/// Calls for every placement of a cut's axes on the levels.
void for_each_placement(const Arrangement& cut, const EvenCluster& cluster,
                        const std::function<void(const Arrangement&)>& found);

Result<ArrangementSearch> search_arrangements(const StepPricer& pricer, ExchangePrices& prices,
                                              const FixedParts& fixed, const SearchLimits& limits);

/// The list of the best: which arrangements count as one, and in which order they stand.
class BestArrangements {
 public:
  explicit BestArrangements(size_t keep, size_t outermost) : keep_(keep), outermost_(outermost) {}
  /// Above this nothing is taken.
  double limit() const;
  void offer(const Arranged& one);
  const std::vector<Arranged>& all() const { return best_; }

 private:
  using Kind = std::array<uint32_t, 2 * kAxes + 2>;
  Kind kind_of(const Arrangement& arrangement) const;

  size_t keep_;
  size_t outermost_;  // level of the cluster
  std::vector<Arranged> best_;
};

}  // namespace tutti::arrange
