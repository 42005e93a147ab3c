#include "tutti/runtime/expert_moves.h"

#include <algorithm>
#include <cmath>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

int per_rank(const ExpertPlan& plan) { return plan.experts / plan.ranks; }
int home_of(const ExpertPlan& plan, int expert) { return expert / per_rank(plan); }

/// Calls see(expert, home, helper, slot of the helper) for each copy.
template <class See>
void for_each_copy(const ExpertPlan& plan, const See& see) {
  const std::vector<std::vector<int>> slots = helper_slots(plan);
  for (int helper = 0; helper < plan.ranks; ++helper) {
    for (int64_t slot = 0; slot < std::ssize(slots[at(helper)]); ++slot) {
      const int expert = slots[at(helper)][at(slot)];
      see(expert, home_of(plan, expert), helper, slot);
    }
  }
}

}  // namespace

ExpertPlan plan_experts(std::span<const int64_t> loads, int ranks, const SpillRule& rule,
                        double gate) {
  check_ranks(ranks);
  require(!loads.empty() && std::ssize(loads) % ranks == 0, loads.size(),
          " experts are not a multiple of ", ranks, " ranks");
  require(std::isfinite(gate) && gate >= 1, "the gate is ", gate,
          "; the largest load is never below the mean, give 1 or more");
  ExpertPlan plan{ranks, static_cast<int>(loads.size()), false, {}};
  WorkProblem problem;
  problem.bins.resize(at(ranks));
  for (int e = 0; e < plan.experts; ++e) {
    WorkItem item;
    item.units = loads[at(e)];
    item.grain = 1;
    item.home = home_of(plan, e);
    problem.items.push_back(item);
    plan.assignment.slices.push_back({e, 0, item.units, item.home});
  }
  std::erase_if(plan.assignment.slices, [](const WorkSlice& s) { return s.end == 0; });
  // Checked also where the gate keeps everything at home.
  const Assignment spilled = least_loaded_spill(problem, rule);
  plan.balanced = judge(problem, plan.assignment).max_over_mean < gate;
  if (!plan.balanced) plan.assignment = spilled;
  return plan;
}

std::vector<TokenRun> route_tokens(const ExpertPlan& plan, std::span<const int64_t> counts) {
  require(counts.size() == at(plan.ranks) * at(plan.experts), counts.size(), " counts for ",
          plan.ranks, " ranks and ", plan.experts, " experts; give one of each pair");
  std::vector<TokenRun> runs;
  size_t slice = 0;
  const std::vector<WorkSlice>& slices = plan.assignment.slices;
  for (int e = 0; e < plan.experts; ++e) {
    int64_t before = 0;  // in the global order of the expert
    for (int s = 0; s < plan.ranks; ++s) {
      const int64_t count = counts[at(s) * at(plan.experts) + at(e)];
      require(count >= 0, "rank ", s, " counts ", count, " tokens for expert ", e);
      for (int64_t done = 0; done < count;) {
        while (slice < slices.size() &&
               (slices[slice].item < e ||
                (slices[slice].item == e && slices[slice].end <= before + done))) {
          ++slice;
        }
        require(slice < slices.size() && slices[slice].item == e, "expert ", e,
                " has more tokens than were planned; plan with the counts that are routed");
        const int64_t length = std::min(count - done, slices[slice].end - before - done);
        runs.push_back({s, e, done, length, slices[slice].bin});
        done += length;
      }
      before += count;
    }
    const auto last = std::find_if(slices.rbegin(), slices.rend(),
                                   [&](const WorkSlice& own) { return own.item == e; });
    require(last == slices.rend() ? before == 0 : last->end == before, "expert ", e, " has ",
            before, " tokens and the plan another number; plan with the counts that are routed");
  }
  return runs;
}

std::vector<std::vector<int>> helper_slots(const ExpertPlan& plan) {
  std::vector<std::vector<int>> slots(at(plan.ranks));
  for (const WorkSlice& slice : plan.assignment.slices) {
    std::vector<int>& own = slots[at(slice.bin)];
    if (slice.bin == home_of(plan, slice.item)) continue;
    if (own.empty() || own.back() != slice.item) own.push_back(slice.item);
  }
  return slots;
}

Resharding push_weights(const ExpertPlan& plan, int64_t elements) {
  require(elements >= 1, "an expert has ", elements, " elements; give 1 or more");
  Resharding result{plan.ranks, {}, {}, {}};
  const std::vector<std::vector<int>> slots = helper_slots(plan);
  for (int r = 0; r < plan.ranks; ++r) {
    result.source_sizes.push_back(checked_product(per_rank(plan), elements, "a rank's weights"));
    result.target_sizes.push_back(
        checked_product(std::ssize(slots[at(r)]), elements, "the copies on a rank"));
  }
  for_each_copy(plan, [&](int expert, int home, int helper, int64_t slot) {
    result.parcels.push_back(
        {home, helper, expert % per_rank(plan) * elements, slot * elements, elements});
  });
  return result;
}

Resharding pull_gradients(const ExpertPlan& plan, int64_t elements) {
  Resharding push = push_weights(plan, elements);
  Resharding result{plan.ranks, {}, push.source_sizes, {}};
  for (int r = 0; r < plan.ranks; ++r) {
    const int64_t own = push.source_sizes[at(r)];
    result.source_sizes.push_back(checked_sum(own, push.target_sizes[at(r)], "a rank's gradients"));
    result.parcels.push_back({r, r, 0, 0, own});
  }
  for_each_copy(plan, [&](int expert, int home, int helper, int64_t slot) {
    result.parcels.push_back({helper, home, push.source_sizes[at(helper)] + slot * elements,
                              expert % per_rank(plan) * elements, elements});
  });
  std::stable_sort(
      result.parcels.begin(), result.parcels.end(), [](const Parcel& a, const Parcel& b) {
        return a.target != b.target ? a.target < b.target : a.target_offset < b.target_offset;
      });
  return result;
}

}  // namespace tutti::runtime
