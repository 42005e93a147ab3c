// Samples of unequal length are dealt to ranks anew in each step, so that no rank is late
// (FreeScale, arXiv:2604.24073).
//
// All ranks gather the lengths, compute the same deal, and shuffle the samples by a Resharding,
// which an Exchange runs: this can go on beside the step before. Samples stay in their step, so
// what is ordered by time stays so.
//
//   deal_equally   as many samples on every rank: the longest go to the ranks in turn, there and
//                  back (0 1 2 3 3 2 1 0 0 1 ...)
//   deal_by_work   runs of samples in their order with nearly equal work, length ^ exponent; ranks
//                  get unequal batches, so losses must be weighted by them (loss_weights)
//
// Exact: the equal deal, the shuffle, work as a power of the length. Ours: runs whose largest work
// is the least possible, the fit of the exponent by least squares.
//
// Units:   lengths are numbers of elements, such as tokens. Samples are numbered in rank order.
// Errors:  throws Error and names the sample.
// Threads: pure functions, equal on all ranks; gather_samples() as its communicator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/reshard.h"

namespace tutti::runtime {

struct SampleList {
  std::vector<int64_t> ids;      // the caller's names
  std::vector<int64_t> lengths;  // 0 or more
  std::vector<int> rank_of;      // where each sample is, ascending
};
/// The samples of all ranks in rank order. Collective. A sample that two ranks have is refused on
/// all ranks, also where they differ about its length; so is a rank with a negative length.
TUTTI_RUNTIME_API SampleList gather_samples(tuttiComm_t comm, std::span<const int64_t> ids,
                                            std::span<const int64_t> lengths);

struct SampleDeal {
  int ranks = 1;
  std::vector<int> rank_of;     // of each sample
  std::vector<int64_t> loads;   // sum of lengths on each rank
  std::vector<int64_t> counts;  // samples on each rank
  double max_over_mean = 1;     // of loads
  bool operator==(const SampleDeal&) const = default;
};

/// The number of samples must be a multiple of `ranks`.
TUTTI_RUNTIME_API SampleDeal deal_equally(std::span<const int64_t> lengths, int ranks);
/// Every rank gets a sample at least; fewer samples than ranks are refused.
TUTTI_RUNTIME_API SampleDeal deal_by_work(std::span<const int64_t> lengths, double exponent,
                                          int ranks);
/// Any other deal, by the caller: rank_of has a rank for each sample. Refused where a rank gets
/// none, unless `may_be_empty`: then the caller weights the losses of those that have some.
TUTTI_RUNTIME_API SampleDeal deal_as_told(std::span<const int64_t> lengths,
                                          std::span<const int> rank_of, int ranks,
                                          bool may_be_empty = false);

/// The factors of the ranks' mean losses, such that the mean over ranks is that over samples.
TUTTI_RUNTIME_API std::vector<double> loss_weights(const SampleDeal& deal);

/// The exponent in 0 .. 3 for which the ranks' works, sums of length ^ exponent, were most nearly
/// proportional to the times that they took; the smaller of equals.
TUTTI_RUNTIME_API double fitted_exponent(std::span<const int64_t> lengths, const SampleDeal& deal,
                                         std::span<const double> times);

/// Moves the elements of samples from where they are to where they are dealt. Each rank's buffer
/// has its samples one after the other, in their order.
TUTTI_RUNTIME_API Resharding shuffle(const SampleList& samples, const SampleDeal& deal);

}  // namespace tutti::runtime
