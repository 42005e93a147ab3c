// One small exchange of counts serves all that need them: load-balancing losses, least-loaded
// experts and capacities ask one ticket instead of exchanging counts three times a layer.
//
// Owns:     a stream and the exchanges under way; the communicator is the caller's, and only this
//           object's while one is (give it a communicator of its own).
// Ordering: every rank posts the same layers in the same order; a rank that does not is named by
//           the wait (kRanksDiffer). post() returns at once, the exchange runs behind what is
//           computed.
// Threads:  one at a time.
// Errors:   throws Error for counts that are negative or do not sum to what was promised, tickets
//           that were never given, were waited for, or are of a step that has ended.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tutti/runtime/error.h"

namespace tutti::runtime {

struct CounterTicket {
  int64_t number = -1;
};

/// The counters that all ranks posted for one layer.
struct Counts {
  int ranks = 0;
  std::vector<int64_t> values;  // of all ranks in rank order, sums.size() for each
  std::vector<int64_t> sums;    // of each counter over the ranks

  std::span<const int64_t> of(int rank) const {
    return std::span(values).subspan(static_cast<size_t>(rank) * sums.size(), sums.size());
  }
};

class TUTTI_RUNTIME_API CounterSync {
 public:
  CounterSync(tuttiComm_t comm, int counters);
  ~CounterSync();

  /// `expected_sum` is tokens * k of this rank; -1: not checked.
  CounterTicket post(int layer, std::span<const int64_t> counts, int64_t expected_sum = -1);
  Counts wait(CounterTicket ticket);
  /// Sums of a layer over all waits of this step: with gradient accumulation the counts of its
  /// micro-batches so far (Demons in the Detail, arXiv:2501.11873).
  std::span<const int64_t> accumulated(int layer) const;
  /// The optimizer has stepped: accumulation begins anew, and open tickets are void.
  void end_step();

  /// The number of exchanges so far.
  int64_t exchanges() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// N * sum of f_i * P_i over the N experts, f_i the share of selections, P_i the mean probability
/// of the router. With counts summed over all ranks and P of one rank, the mean over ranks with
/// equal numbers of tokens is the loss of the whole batch; with unequal ones weight by tokens.
TUTTI_RUNTIME_API double load_balance_loss(std::span<const int64_t> counts,
                                           std::span<const double> mean_probability);
/// The same, and `local` times the loss of the micro-batch alone, by its own counts: it limits how
/// uneven a single one can be (the paper adds 1 %).
TUTTI_RUNTIME_API double load_balance_loss(std::span<const int64_t> counts,
                                           std::span<const int64_t> own_counts,
                                           std::span<const double> mean_probability,
                                           double local = 0.01);

}  // namespace tutti::runtime
