// The strategies that cut items: least_loaded_spill and deficit_fill.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/work.h"
#include "tutti/runtime/assign.h"

namespace tutti::runtime {
namespace {

/// Section numbers are those of the paper's algorithm: (1) all at home, (2) home takes what it has
/// room for, (3) everything leaves.
class Spill {
 public:
  Spill(const WorkProblem& problem, const SpillRule& rule)
      : problem_(problem),
        rule_(rule),
        done_(problem.bins.size(), 0),
        pending_(problem.bins.size(), 0) {
    const long double share = static_cast<long double>(total_cost(problem)) * rule.alpha /
                              static_cast<long double>(problem.bins.size());
    // With a huge alpha nobody is ever full.
    cap_ = share < 0x1p63L ? static_cast<int64_t>(std::ceil(share)) : kNoLimit;
    for (const WorkItem& item : problem.items) pending_[at(item.home)] += item.units;
  }

  Assignment solve() {
    for (const int i : by_cost(problem_)) {
      const WorkItem& item = problem_.items[at(i)];
      pending_[at(item.home)] -= item.units;
      // With one bin there is nobody to spill to.
      const int64_t room = problem_.bins.size() == 1 ? item.units : cap_ - load(item.home);
      const int64_t stays = std::clamp<int64_t>(room, 0, item.units);
      give(i, 0, stays, item.home);
      spill(i, stays);
    }
    return tidied(std::move(slices_));
  }

 private:
  int64_t load(int bin) const { return done_[at(bin)] + pending_[at(bin)]; }

  void give(int item, int64_t begin, int64_t units, int bin) {
    if (units == 0) return;
    slices_.push_back({item, begin, begin + units, bin});
    done_[at(bin)] += units;
  }

  void spill(int i, int64_t begin) {
    const WorkItem& item = problem_.items[at(i)];
    while (begin < item.units) {
      const int64_t rest = item.units - begin;
      std::vector<int> others;
      for (int b = 0; b < std::ssize(problem_.bins); ++b) {
        if (b != item.home) others.push_back(b);
      }
      std::stable_sort(others.begin(), others.end(),
                       [&](int a, int b) { return load(a) < load(b); });
      int64_t taken = 0;
      for (const int bin : others) {
        const int64_t chunk = std::min(rest, cap_ - load(bin));
        if (chunk <= 0 || (chunk < rule_.min_units && rest > chunk)) continue;
        give(i, begin, taken = chunk, bin);
        break;
      }
      if (taken == 0) give(i, begin, taken = rest, others.front());
      begin += taken;
    }
  }

  const WorkProblem& problem_;
  const SpillRule& rule_;
  int64_t cap_ = 0;
  std::vector<int64_t> done_, pending_;
  std::vector<WorkSlice> slices_;
};

/// The slices at home give way to those that leave; what has left stays where it went.
class DeficitFill {
 public:
  DeficitFill(const WorkProblem& problem, double epsilon)
      : problem_(problem),
        state_(problem),
        mean_(total_cost(problem) / std::ssize(problem.bins)),
        tolerated_(epsilon < 1 ? static_cast<int64_t>(epsilon * static_cast<double>(mean_))
                               : mean_) {  // what a bin lacks is never more than the mean
    for (size_t i = 0; i < problem.items.size(); ++i) {
      const WorkItem& item = problem.items[i];
      require(item.home >= 0, "item ", i, " has no home; deficit_fill moves work away from homes");
      slices_.push_back({static_cast<int>(i), 0, item.units, item.home});
      state_.place(item, item.units, item.home);
    }
  }

  Assignment solve() {
    std::vector<int> targets(problem_.bins.size());
    std::iota(targets.begin(), targets.end(), 0);
    std::stable_sort(targets.begin(), targets.end(),
                     [&](int a, int b) { return state_.load(a) < state_.load(b); });
    for (const int target : targets) {
      while (mean_ - state_.load(target) > tolerated_ && take_best(target)) {
      }
    }
    return tidied(std::move(slices_));
  }

 private:
  /// How many units of a slice the target should take: to the nearest grain, and never so many
  /// that the source falls below the mean by more than half a grain.
  int64_t units_for(const WorkSlice& slice, int target) const {
    const WorkItem& item = problem_.items[at(slice.item)];
    const int64_t cost = std::min(state_.load(slice.bin) - mean_, mean_ - state_.load(target));
    if (cost <= 0 || item.unit_cost == 0) return 0;
    const int64_t held = slice.end - slice.begin;
    if (item.grain == 0) return item.cost() <= cost ? held : 0;
    const int64_t grain = std::min(item.grain, std::max<int64_t>(1, item.units));
    const int64_t grain_cost = grain * item.unit_cost;
    // The rest must end on the grain, so a slice that leaves may be short only if it is the whole
    // item.
    const int64_t most = held / grain + 1;  // more grains than the slice has
    const int64_t grains = cost / grain_cost + (cost % grain_cost >= grain_cost - grain_cost / 2);
    const int64_t left = grains >= most ? 0 : held - std::min(held, grains * grain);
    const int64_t kept = left / grain + (left % grain > 0);
    return kept >= most ? 0 : held - std::min(held, kept * grain);
  }

  bool take_best(int target) {
    int best = -1;
    int64_t best_units = 0, best_bytes = 0;
    for (size_t s = 0; s < slices_.size(); ++s) {
      const WorkSlice& slice = slices_[s];
      const WorkItem& item = problem_.items[at(slice.item)];
      if (slice.bin != item.home || slice.bin == target) continue;
      const int64_t units = units_for(slice, target);
      if (units == 0 || !state_.fits(item, units, target)) continue;
      const int64_t bytes = std::max<int64_t>(1, bytes_moved(item, units, target).value);
      // Compared as fractions: cost / bytes of this one against that of the best so far.
      const auto gain = static_cast<__int128>(units * item.unit_cost) * best_bytes;
      const auto best_gain =
          best < 0 ? -1
                   : static_cast<__int128>(best_units *
                                           problem_.items[at(slices_[at(best)].item)].unit_cost) *
                         bytes;
      if (gain > best_gain) best = static_cast<int>(s), best_units = units, best_bytes = bytes;
    }
    if (best < 0) return false;
    WorkSlice& slice = slices_[at(best)];
    const WorkItem& item = problem_.items[at(slice.item)];
    state_.remove(item, best_units, slice.bin);
    state_.place(item, best_units, target);
    slice.end -= best_units;
    slices_.push_back({slice.item, slice.end, slice.end + best_units, target});
    return true;
  }

  const WorkProblem& problem_;
  BinState state_;
  int64_t mean_;
  int64_t tolerated_;
  std::vector<WorkSlice> slices_;
};

}  // namespace

Assignment least_loaded_spill(const WorkProblem& problem, const SpillRule& rule) {
  check_problem(problem);
  require(rule.alpha >= 1, "alpha is ", rule.alpha,
          "; below 1 the bins cannot hold the work, give 1 or more");
  require(std::isfinite(rule.alpha), "alpha is not finite");
  require(rule.min_units >= 1, "the smallest slice is ", rule.min_units,
          "; with less than 1 the algorithm does not end");
  for (size_t i = 0; i < problem.items.size(); ++i) {
    const WorkItem& item = problem.items[i];
    require(item.home >= 0, "item ", i, " has no home to spill from; give it one");
    require(item.unit_cost == 1 && item.grain == 1, "item ", i, " has unit cost ", item.unit_cost,
            " and grain ", item.grain, "; spilling counts tokens: give 1 and 1");
  }
  Assignment result = Spill(problem, rule).solve();
  judge(problem, result);  // bins may have limits of their own
  return result;
}

Assignment deficit_fill(const WorkProblem& problem, double epsilon) {
  check_problem(problem);
  require(std::isfinite(epsilon) && epsilon >= 0, "epsilon is ", epsilon, "; give 0 or more");
  Assignment result = DeficitFill(problem, epsilon).solve();
  judge(problem, result);
  return result;
}

}  // namespace tutti::runtime
