// The strategies that place whole items: lpt, two_level, exact.
#include "tutti/runtime/assign.h"

#include <algorithm>
#include <map>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/work.h"

namespace tutti::runtime {
namespace {

/// The least loaded of these bins with room; -1: none has.
int least_loaded(const BinState& state, const std::vector<int>& bins, const WorkItem& item,
                 int64_t units) {
  int best = -1;
  for (const int bin : bins) {
    if (!state.fits(item, units, bin)) continue;
    if (best < 0 || state.load(bin) < state.load(best)) best = bin;
  }
  return best;
}

std::vector<int> all_bins(const WorkProblem& problem) {
  std::vector<int> bins;
  for (size_t b = 0; b < problem.bins.size(); ++b) bins.push_back(static_cast<int>(b));
  return bins;
}

[[noreturn]] void no_room(int item, const WorkItem& work, int64_t units) {
  infeasible("no bin has room for item ", item, ", which needs ", units * work.unit_cost,
             " of capacity and ", units * work.unit_memory,
             " of memory; give the bins more, or let the item be cut");
}

/// A run of units that a level of the machine still has to place.
struct Portion {
  int item = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

/// Places portions on groups of bins: what is divisible and above the mean share of a group is cut
/// over all groups, the rest goes to the least loaded group. Gives what each group has to place.
class AssignmentLevel {
 public:
  AssignmentLevel(const WorkProblem& problem, std::vector<std::vector<int>> groups)
      : problem_(problem), groups_(std::move(groups)), placed_(groups_.size()) {
    for (const std::vector<int>& group : groups_) {
      WorkBin bin{0, 0, 0};
      for (const int b : group) {
        bin.capacity = sum(bin.capacity, problem.bins[at(b)].capacity);
        bin.memory = sum(bin.memory, problem.bins[at(b)].memory);
      }
      as_bins_.bins.push_back(bin);
    }
  }

  const std::vector<std::vector<Portion>>& place(std::vector<Portion> portions) {
    BinState state(as_bins_);
    const std::vector<int> every = all_bins(as_bins_);
    int64_t total = 0;
    for (const Portion& p : portions) total += cost(p);
    std::stable_sort(portions.begin(), portions.end(),
                     [&](const Portion& a, const Portion& b) { return cost(a) > cost(b); });
    const int64_t groups = std::ssize(groups_);
    for (const Portion& p : portions) {
      const WorkItem& item = problem_.items[at(p.item)];
      if (item.grain > 0 && groups > 1 && cost(p) > total / groups) {
        cut(p, state);
        continue;
      }
      const int group = least_loaded(state, every, item, p.end - p.begin);
      if (group < 0) no_room(p.item, item, p.end - p.begin);
      state.place(item, p.end - p.begin, group);
      placed_[at(group)].push_back(p);
    }
    return placed_;
  }

 private:
  static int64_t sum(int64_t a, int64_t b) { return a > kNoLimit - b ? kNoLimit : a + b; }
  int64_t cost(const Portion& p) const {
    return (p.end - p.begin) * problem_.items[at(p.item)].unit_cost;
  }

  /// Equal parts on the grain, the remainder to the first groups.
  void cut(const Portion& p, BinState& state) {
    const WorkItem& item = problem_.items[at(p.item)];
    const int64_t groups = std::ssize(groups_);
    const auto grains_of = [&](int64_t units) {
      return units / item.grain + (units % item.grain > 0);
    };
    const int64_t grains = grains_of(p.end - p.begin);
    int64_t begin = p.begin;
    for (int64_t g = 0; g < groups && begin < p.end; ++g) {
      const int64_t mine = grains / groups + (g < grains % groups);
      const int64_t end = mine >= grains_of(p.end - begin) ? p.end : begin + mine * item.grain;
      if (!state.fits(item, end - begin, static_cast<int>(g))) no_room(p.item, item, end - begin);
      state.place(item, end - begin, static_cast<int>(g));
      if (end > begin) placed_[at(g)].push_back({p.item, begin, end});
      begin = end;
    }
  }

  const WorkProblem& problem_;
  std::vector<std::vector<int>> groups_;
  WorkProblem as_bins_;
  std::vector<std::vector<Portion>> placed_;
};

/// Depth first over the items by decreasing cost; what cannot beat the best is not looked at.
class ExactSearch {
 public:
  explicit ExactSearch(const WorkProblem& problem)
      : problem_(problem), order_(by_cost(problem)), state_(problem), bin_(order_.size(), 0) {}

  Assignment solve() {
    descend(0, 0, Bytes(0));
    if (!found_) infeasible("no assignment of whole items keeps the bins' limits; give them more");
    std::vector<WorkSlice> slices;
    for (size_t i = 0; i < best_.size(); ++i) {
      slices.push_back({static_cast<int>(i), 0, problem_.items[i].units, best_[i]});
    }
    return tidied(std::move(slices));
  }

 private:
  void descend(size_t depth, int64_t max_load, Bytes moved) {
    if (found_ && (max_load > max_load_ || (max_load == max_load_ && moved >= moved_))) return;
    if (depth == order_.size()) {
      found_ = true;
      max_load_ = max_load;
      moved_ = moved;
      best_ = bin_;
      return;
    }
    const WorkItem& item = problem_.items[at(order_[depth])];
    for (const int bin : all_bins(problem_)) {
      if (!state_.fits(item, item.units, bin)) continue;
      state_.place(item, item.units, bin);
      bin_[at(order_[depth])] = bin;
      descend(depth + 1, std::max(max_load, state_.load(bin)),
              moved + bytes_moved(item, item.units, bin));
      state_.remove(item, item.units, bin);
    }
  }

  const WorkProblem& problem_;
  std::vector<int> order_;
  BinState state_;
  std::vector<int> bin_, best_;
  bool found_ = false;
  int64_t max_load_ = 0;
  Bytes moved_{0};
};

}  // namespace

Assignment lpt(const WorkProblem& problem) {
  check_problem(problem);
  BinState state(problem);
  const std::vector<int> bins = all_bins(problem);
  std::vector<WorkSlice> slices;
  for (const int i : by_cost(problem)) {
    const WorkItem& item = problem.items[at(i)];
    const int bin = least_loaded(state, bins, item, item.units);
    if (bin < 0) no_room(i, item, item.units);
    state.place(item, item.units, bin);
    slices.push_back({i, 0, item.units, bin});
  }
  return tidied(std::move(slices));
}

Assignment two_level(const WorkProblem& problem) {
  check_problem(problem);
  std::map<int, std::vector<int>> nodes;
  for (size_t b = 0; b < problem.bins.size(); ++b) {
    nodes[problem.bins[b].node].push_back(static_cast<int>(b));
  }
  std::vector<std::vector<int>> groups;
  for (const auto& [node, bins] : nodes) groups.push_back(bins);
  std::vector<Portion> all;
  for (size_t i = 0; i < problem.items.size(); ++i) {
    all.push_back({static_cast<int>(i), 0, problem.items[i].units});
  }
  AssignmentLevel node_level(problem, groups);
  const auto& of_nodes = node_level.place(all);
  std::vector<WorkSlice> slices;
  for (size_t n = 0; n < groups.size(); ++n) {
    std::vector<std::vector<int>> single;
    for (const int bin : groups[n]) single.push_back({bin});
    AssignmentLevel bin_level(problem, single);
    const auto& of_bins = bin_level.place(of_nodes[n]);
    for (size_t b = 0; b < single.size(); ++b) {
      for (const Portion& p : of_bins[b]) slices.push_back({p.item, p.begin, p.end, single[b][0]});
    }
  }
  return tidied(std::move(slices));
}

Assignment exact(const WorkProblem& problem) {
  check_problem(problem);
  require(problem.items.size() <= 16, problem.items.size(),
          " items are too many for an exact search; use lpt(), or give at most 16");
  return ExactSearch(problem).solve();
}

}  // namespace tutti::runtime
