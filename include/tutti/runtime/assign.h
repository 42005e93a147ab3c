// Who does which work: items to bins, by one of several strategies, judged by one validator.
//
// The problem is the same for experts to ranks, attention blocks to ranks, documents to servers and
// matrices to roots: items of some cost, some of them divisible, to bins of some room, so that the
// largest load is small and then few bytes move.
//
// Units:   cost is any integer measure (tokens, query-key pairs, nanoseconds), the same for all
// items
//          of a problem. An item has `units` equal parts of unit_cost each; a slice is a run of
//          them.
// Errors:  throws kInvalidInput for numbers that cannot be right, kInfeasible where no bin has
// room:
//          the sentence names the item and the limit. No strategy returns a plan that it knows to
//          break a limit.
// Threads: pure functions of their arguments, equal on all ranks; ties go to the lowest index.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tutti/runtime/error.h"
#include "tutti/runtime/units.h"

namespace tutti::runtime {

inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

struct WorkItem {
  int64_t units = 1;
  int64_t unit_cost = 1;
  int64_t grain = 0;  // slices are multiples of it, but the last; 0: the item stays whole
  int64_t unit_memory = 0;
  int home = -1;        // the bin where its data is; -1: nowhere yet
  Bytes move_fixed{0};  // what a slice away from home moves, whatever its length
  Bytes move_per_unit{0};

  int64_t cost() const { return units * unit_cost; }
};

struct WorkBin {
  int64_t capacity = kNoLimit;  // of cost
  int64_t memory = kNoLimit;
  int node = 0;
};

struct WorkProblem {
  std::vector<WorkItem> items;
  std::vector<WorkBin> bins;
};

/// Units begin .. end of an item are done in this bin.
struct WorkSlice {
  int item = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int bin = 0;
  bool operator==(const WorkSlice&) const = default;
};

struct Assignment {
  std::vector<WorkSlice> slices;  // by item, then begin
  bool operator==(const Assignment&) const = default;
};

struct Judgement {
  std::vector<int64_t> loads;  // cost in each bin
  int64_t max_load = 0;
  double max_over_mean = 1;
  Bytes moved{0};
  int moves = 0;   // slices away from their home
  int splits = 0;  // slices beyond one an item
};

/// Every unit exactly once, no limit broken, no slice off its grain; throws Error otherwise.
TUTTI_RUNTIME_API Judgement judge(const WorkProblem& problem, const Assignment& assignment);

/// Largest item first, each whole to the least loaded bin with room (Graham's LPT; FCP, roots of
/// Muon): max load <= (4/3 - 1/(3 bins)) of the optimum where no limit binds.
TUTTI_RUNTIME_API Assignment lpt(const WorkProblem& problem);

struct SpillRule {
  double alpha = 1;       // a bin is full at ceil(alpha * total / bins)
  int64_t min_units = 1;  // slices below it are not worth a move
};
/// Least-loaded expert parallelism (LLEP): a full home spills to the least loaded others. With
/// min_units above 1 the last slice may exceed the mark. Items need a home and a unit cost of 1.
TUTTI_RUNTIME_API Assignment least_loaded_spill(const WorkProblem& problem, const SpillRule& rule);

/// Core attention disaggregation (CAD): bins in decreasing deficit take from bins above the mean
/// what gives most cost for its bytes, until every deficit is at most epsilon of the mean or
/// nothing fits.
TUTTI_RUNTIME_API Assignment deficit_fill(const WorkProblem& problem, double epsilon);

/// Nodes first, then the bins of each node (Zeppelin; the splitting rule is a reconstruction): a
/// divisible item above the mean share of a level is cut over it, the others go by lpt.
TUTTI_RUNTIME_API Assignment two_level(const WorkProblem& problem);

/// The least (max load, moved bytes) with whole items, by branch and bound: the oracle of tests. At
/// most 16 items.
TUTTI_RUNTIME_API Assignment exact(const WorkProblem& problem);

}  // namespace tutti::runtime
