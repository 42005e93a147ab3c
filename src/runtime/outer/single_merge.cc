#include "tutti/runtime/outer/single_merge.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "src/runtime/index.h"
#include "src/runtime/outer/pair_exchange.h"
#include "src/runtime/outer/specs.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/exchange.h"

namespace tutti::runtime {
namespace {

constexpr size_t kPiece = size_t{1} << 16;  // elements of each model at a time

bool is_finite_model(std::span<const float> params) {
  return std::all_of(params.begin(), params.end(), [](float x) { return x - x == 0; });
}

/// The words of ranks before a merge.
struct MergeMember {
  double weight;
  int64_t elements, layout, is_finite;
};

std::vector<MergeMember> meet(tuttiComm_t comm, std::span<const float> params,
                              const MergeSpec& spec) {
  require(spec.weight >= 0 && spec.weight - spec.weight == 0, "a weight of ", spec.weight,
          "; give a finite number of 0 or more");
  int ranks = 0;
  expect_success(tuttiCommCount(comm, &ranks), comm, "tuttiCommCount");
  require(spec.members == 0 || spec.members >= ranks, spec.members, " members and ", ranks,
          " ranks; members are those of the whole training");
  require(spec.members <= ranks || spec.allows_partial, spec.members - ranks, " of ", spec.members,
          " members are missing; wait for them, or set allows_partial to merge without them");
  const MergeMember own{spec.weight, std::ssize(params), spec.layout, is_finite_model(params)};
  std::vector<MergeMember> all(at(ranks));
  expect_success(tuttiAllGather(&own, all.data(), sizeof own, tuttiUint8, comm, tuttiBlocking()),
                 comm, "the exchange of weights");
  for (int r = 0; r < ranks; ++r) {
    if (all[at(r)].elements == own.elements && all[at(r)].layout == own.layout) continue;
    throw Error(ErrorKind::kRanksDiffer,
                words("rank ", r, " has ", all[at(r)].elements, " parameters of layout ",
                      all[at(r)].layout, ", this rank ", own.elements, " of layout ", own.layout,
                      "; merge models of one layout and version"),
                tuttiInvalidUsage);
  }
  return all;
}

}  // namespace

MergeReport merge_all(tuttiComm_t comm, std::span<float> params, const MergeSpec& spec) {
  const std::vector<MergeMember> members = meet(comm, params, spec);
  MergeReport report;
  report.is_partial = spec.members > std::ssize(members);
  double whole = 0;
  for (size_t r = 0; r < members.size(); ++r) {
    if (members[r].is_finite == 0) report.excluded.push_back(static_cast<int>(r));
    whole += members[r].is_finite != 0 ? members[r].weight : 0;
  }
  require(whole > 0, "the weights of the finite models sum to ", whole,
          "; give at least one of them a weight above 0");
  std::vector<float> all(kPiece * members.size());
  for (size_t begin = 0; begin < params.size(); begin += kPiece) {
    const size_t count = std::min(kPiece, params.size() - begin);
    expect_success(tuttiAllGather(params.data() + begin, all.data(), count, tuttiFloat32, comm,
                                  tuttiBlocking()),
                   comm, "the exchange of models");
    for (size_t i = 0; i < count; ++i) {
      double sum = 0;
      for (size_t r = 0; r < members.size(); ++r) {
        if (members[r].is_finite != 0) sum += members[r].weight * double{all[r * count + i]};
      }
      params[begin + i] = static_cast<float>(sum / whole);
    }
  }
  return report;
}

std::vector<int64_t> gossip_steps(const MergeBudget& budget) {
  require(budget.steps >= 1, budget.steps, " steps; give 1 or more");
  require(budget.round > Bytes(0) && budget.merge >= Bytes(0), "a round of ", budget.round.value,
          " bytes and a merge of ", budget.merge.value, "; give what they send");
  require(budget.lateness >= 1, "a lateness of ", budget.lateness, "; give 1 (evenly) or more");
  require(budget.total >= budget.merge, "a budget of ", budget.total.value,
          " bytes does not pay for the merge of ", budget.merge.value, "; give more");
  const int64_t paid = (budget.total - budget.merge).value / budget.round.value;
  const int64_t rounds = std::min(paid, budget.steps - 1);
  std::vector<int64_t> steps;
  for (int64_t i = 0; i < rounds; ++i) {
    const double share = static_cast<double>(i + 1) / static_cast<double>(rounds + 1);
    const double place = static_cast<double>(budget.steps) * std::pow(share, 1 / budget.lateness);
    steps.push_back(std::max<int64_t>(1, static_cast<int64_t>(place)));
  }
  // One round a step: crowded ones move to earlier steps.
  int64_t next = budget.steps;
  for (size_t i = steps.size(); i-- > 0;) next = steps[i] = std::min(steps[i], next - 1);
  return steps;
}

class SingleMerge::Impl {
 public:
  Impl(std::span<const float> params, const SingleMergeSpec& spec)
      : spec_(spec), exchange_(std::ssize(params)) {
    const auto model = static_cast<int64_t>(params.size_bytes());
    if (spec_.budget.round == Bytes(0)) spec_.budget.round = Bytes(model);
    takes_size_of_merge_ = spec_.budget.merge == Bytes(0);
  }

  void join(const OuterGroup& group, int ranks, int rank, int64_t elements) {
    group_ = group;
    ranks_ = ranks;
    rank_ = rank;
    if (takes_size_of_merge_) spec_.budget.merge = Bytes((ranks - 1) * elements * 4);
    steps_ = gossip_steps(spec_.budget);
    gossip_pairs(spec_.seed, 0, ranks, spec_.odd);
    Fingerprint plan;
    plan.add(static_cast<int64_t>(spec_.seed));
    plan.add(elements);
    plan.add(spec_.budget.steps);
    for (const int64_t step : steps_) plan.add(step);
    agree(group.comm, plan.value(), "the plan of the merge (its seed and budget, too)");
  }

  bool is_last(int64_t step) const { return step == spec_.budget.steps; }
  bool has_gossip(int64_t step) const {
    return std::binary_search(steps_.begin(), steps_.end(), step);
  }

  int64_t gossip(int64_t step, std::span<float> params, bool commit, OuterReport& report) {
    const int partner = gossip_pairs(spec_.seed, step, ranks_, spec_.odd)[at(rank_)];
    if (partner < 0) {
      report.skipped = "this rank idles in this round, as their number is odd";
      return 0;
    }
    exchange_.begin(group_, partner, {group_.epoch, step, 0, commit && is_finite_model(params)},
                    params);
    report.launched = 0;
    report.skipped = exchange_.finish();
    if (report.skipped.empty()) {
      report.applied = 0;
      const std::span<const float> theirs = exchange_.theirs();
      for (size_t i = 0; i < params.size(); ++i) params[i] = (params[i] + theirs[i]) / 2;
    }
    return spec_.budget.round.value;
  }

  int64_t merge(std::span<float> params, OuterReport& report) {
    merged_ = merge_all(group_.comm, params, spec_.merge);
    report.launched = report.applied = 0;
    return spec_.budget.merge.value;
  }

  const MergeReport& merged() const { return merged_; }

 private:
  SingleMergeSpec spec_;
  bool takes_size_of_merge_ = false;
  OuterGroup group_;
  int ranks_ = 0;
  int rank_ = 0;
  std::vector<int64_t> steps_;
  PairExchange exchange_;
  MergeReport merged_;
};

SingleMerge::SingleMerge(OuterGroup group, std::span<const float> params,
                         const SingleMergeSpec& spec)
    : OuterOptimizer(group, std::ssize(params)), impl_(std::make_unique<Impl>(params, spec)) {
  impl_->join(group, ranks(), rank(), elements());
}
SingleMerge::~SingleMerge() = default;

const MergeReport& SingleMerge::merge_report() const { return impl_->merged(); }

OuterReport SingleMerge::at_boundary(int64_t step, std::span<float> params, bool commit) {
  OuterReport report;
  if (impl_->is_last(step)) {
    count_bytes(impl_->merge(params, report));
  } else if (impl_->has_gossip(step)) {
    count_bytes(impl_->gossip(step, params, commit, report));
  }
  return report;
}

OuterReport SingleMerge::take_rest(std::span<float> /*params*/) { return {}; }

void SingleMerge::join_group() { impl_->join(group(), ranks(), rank(), elements()); }

}  // namespace tutti::runtime
