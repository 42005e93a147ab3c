// The common part of the strategies of assign.h.
#pragma once

#include <vector>

#include "tutti/runtime/assign.h"

namespace tutti::runtime {

/// Throws for numbers that cannot be right; a strategy calls it first.
void check_problem(const WorkProblem& problem);

int64_t total_cost(const WorkProblem& problem);

/// Loads and memory of bins while slices are placed.
class BinState {
 public:
  explicit BinState(const WorkProblem& problem);

  bool fits(const WorkItem& item, int64_t units, int bin) const;
  void place(const WorkItem& item, int64_t units, int bin);
  void remove(const WorkItem& item, int64_t units, int bin) { place(item, -units, bin); }
  int64_t load(int bin) const { return loads_[static_cast<size_t>(bin)]; }
  const std::vector<int64_t>& loads() const { return loads_; }

 private:
  const WorkProblem& problem_;
  std::vector<int64_t> loads_;
  std::vector<int64_t> memory_;
};

/// The bytes that the slice moves: none if it stays at its home or has none.
Bytes bytes_moved(const WorkItem& item, int64_t units, int bin);

/// Sorts by item and begin, and joins neighbours in one bin.
Assignment tidied(std::vector<WorkSlice> slices);

/// Item numbers, largest cost first.
std::vector<int> by_cost(const WorkProblem& problem);

}  // namespace tutti::runtime
