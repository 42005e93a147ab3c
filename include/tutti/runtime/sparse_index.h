// The index of sparse attention under context parallelism (MTraining): which columns
// and diagonals of the scores are computed, equal on all ranks.
//
// Every rank estimates how much attention its keys' columns (verticals) and diagonals (slashes) get
// from the last queries; the masses of all ranks are added, and of each kind the smallest set that
// reaches a target is kept. Exact: the sum and the choice. The estimates are the model's.
//
// Units:   masses of any unit, 0 or more; numbers of columns and diagonals from 0.
// Memory:  of the host.
// Errors:  throws Error: masses that are negative or no numbers, a target outside of (0, 1]; ranks
// whose
//          targets differ are kRanksDiffer.
// Threads: top_mass() and expect_index() are pure functions; exchange_index() as its communicator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/error.h"
#include "tutti/tutti.h"

namespace tutti::runtime {

/// The fewest entries with at least `target` of all mass, heaviest first and of equal ones that
/// with the lowest number; ascending. Where all masses are 0 there is none.
TUTTI_RUNTIME_API std::vector<int64_t> top_mass(std::span<const double> mass, double target);

struct SparseIndex {
  std::vector<int64_t> verticals;  // ascending
  std::vector<int64_t> slashes;
  bool operator==(const SparseIndex&) const = default;
};
/// Every rank passes its masses of all columns and diagonals, as many as the others; one collective
/// adds both, with equal bits on all ranks, and a second compares what ranks have chosen.
TUTTI_RUNTIME_API SparseIndex exchange_index(tuttiComm_t comm, std::span<const double> verticals,
                                             std::span<const double> slashes, double target);
/// Throws where numbers do not ascend or are not below `size`.
TUTTI_RUNTIME_API void expect_index(std::span<const int64_t> numbers, int64_t size);

}  // namespace tutti::runtime
