// Assignments of work: items go to bins by one of several strategies, and one validator judges.
//
// The problem is the same for experts and ranks, attention blocks and ranks, documents and servers,
// matrices and roots. Items have a cost, and some of them can be divided; bins have limited room.
// The largest load should be small and, of assignments with equal loads, few bytes should move.
//
// Units:   cost is any integer measure (tokens, query-key pairs, nanoseconds), the same for all
//          items of a problem. An item has `units` equal parts of unit_cost each; a slice is a run
//          of them.
// Errors:  a function throws kInvalidInput for numbers that cannot be right and kInfeasible where
//          no bin has room; the sentence names the item and the limit. No strategy returns a plan
//          that it knows to break a limit.
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
  int64_t grain = 0;        // slices are multiples of it, but for the last; 0: the item stays whole
  int64_t unit_memory = 0;  // of WorkBin::memory, for each unit
  int home = -1;            // the bin where its data is; -1: nowhere yet
  Bytes move_fixed{0};      // what a slice away from home moves, whatever its length
  Bytes move_per_unit{0};

  int64_t cost() const { return units * unit_cost; }
};

struct WorkBin {
  int64_t capacity = kNoLimit;  // the most cost
  int64_t memory = kNoLimit;    // the most memory, in the unit of WorkItem::unit_memory
  int node = 0;                 // for two_level()
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

/// The loads and moves of an assignment. Throws Error unless every unit is assigned exactly once,
/// no limit is broken and every slice keeps to its grain.
TUTTI_RUNTIME_API Judgement judge(const WorkProblem& problem, const Assignment& assignment);

/// Places the largest item first, each as a whole in the least loaded bin with room (Graham's LPT;
/// used by FCP and for the roots of Muon). Where no limit binds, the largest load is at most
/// 4/3 - 1/(3 * bins) times the optimum.
TUTTI_RUNTIME_API Assignment lpt(const WorkProblem& problem);

struct SpillRule {
  double alpha = 1;       // a bin is full at ceil(alpha * total / bins)
  int64_t min_units = 1;  // slices below it are not worth a move
};
/// Least-loaded expert parallelism (LLEP): a bin that is full spills units of its items to the
/// least loaded other bins. With min_units above 1 the last slice may exceed the mark. Items need a
/// home and a unit cost of 1.
TUTTI_RUNTIME_API Assignment least_loaded_spill(const WorkProblem& problem, const SpillRule& rule);

/// Core attention disaggregation (CAD): the bin with the largest deficit below the mean load takes
/// the slice that brings most cost for its bytes from a bin above the mean, again and again until
/// every deficit is at most `epsilon` times the mean or nothing fits.
TUTTI_RUNTIME_API Assignment deficit_fill(const WorkProblem& problem, double epsilon);

/// Assigns items to nodes first, and then to the bins of each node (Zeppelin; the splitting rule is
/// a reconstruction). On each of the two levels a divisible item that exceeds the mean share is cut
/// over all places of the level, and the others are placed as by lpt().
TUTTI_RUNTIME_API Assignment two_level(const WorkProblem& problem);

/// The assignment of whole items with the smallest pair (largest load, moved bytes), found by
/// branch and bound. It is the oracle of tests and takes at most 16 items.
TUTTI_RUNTIME_API Assignment exact(const WorkProblem& problem);

}  // namespace tutti::runtime
