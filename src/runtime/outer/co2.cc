#include "tutti/runtime/outer/co2.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/runtime/index.h"
#include "src/runtime/outer/ballot.h"
#include "src/runtime/outer/specs.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/exchange.h"

namespace tutti::runtime {
namespace {

void check_spec(const Co2Spec& spec) {
  require(spec.period >= 1, "a period of ", spec.period, " steps; give 1 or more");
  check_momentum(spec.momentum, "momentum");
  check_rate(spec.rate, "rate");
  require(spec.penalty >= 1 && spec.penalty - spec.penalty == 0, "a penalty of ", spec.penalty,
          "; give a finite number of 1 or more, by which stale steps are divided");
  require(spec.clip > 0, "a clip of ", spec.clip,
          "; give a number above 0, or infinity for no clip");
  require(spec.shards >= 0, spec.shards, " shards; give 0 or more");
}

}  // namespace

class Co2::Impl {
 public:
  Impl(std::span<const float> params, const Co2Spec& spec)
      : spec_(spec), whole_(params.begin(), params.end()) {
    check_spec(spec);
  }

  void join(const OuterGroup& group) {
    drop();
    group_ = group;
    expect_success(tuttiCommCount(group.comm, &ranks_), group.comm, "tuttiCommCount");
    expect_success(tuttiCommUserRank(group.comm, &rank_), group.comm, "tuttiCommUserRank");
    require(spec_.shards <= ranks_, spec_.shards, " shards of ", ranks_,
            " ranks; give at most as many shards as ranks, each rank owns one at most");
    Fingerprint plan;
    for (const int64_t number : {spec_.period, int64_t{spec_.shards}}) plan.add(number);
    for (const float number : {spec_.momentum, spec_.rate, spec_.penalty, spec_.clip}) {
      add_bits(plan, number);
    }
    add_bits(plan, whole_);
    agree(group.comm, plan.value(), "the plan of CO2");
    share();
  }

  bool is_turn(int64_t step) const { return step % spec_.period == 0; }
  bool is_pending() const { return is_pending_; }

  int64_t launch(int64_t step, std::span<const float> params, bool commit) {
    const bool is_finite =
        std::all_of(params.begin(), params.end(), [](float x) { return x - x == 0; });
    sent_.assign(params.begin(), params.end());
    if (!is_finite) std::fill(sent_.begin(), sent_.end(), 0.0f);
    is_pending_ = true;
    ballot_.begin(group_.comm, stream_, {group_.epoch, step, 0, commit && is_finite});
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.send = sent_.data();
    call.recv = sums_.data();
    call.type = tuttiFloat32;
    if (spec_.shards == 0) {
      call.collective = tuttiCollAllReduce;
      call.count = sent_.size();
    } else {
      call.collective = tuttiCollReduceScatterV;
      call.send_counts = counts_.data();
    }
    request_ = submit_behind(call, group_.comm, stream_);
    const int64_t halves = spec_.shards == 0 ? 2 : 1;
    return halves * (ranks_ - 1) * std::ssize(sent_) * 4 / ranks_;
  }

  /// The bytes that it sends.
  int64_t apply(std::span<float> params, OuterReport& report) {
    const auto [voted, moved] = wait();
    expect_success(voted, group_.comm, "the exchange of votes");
    expect_success(moved, group_.comm, "the average of CO2");
    GatherOutcome outcome = ballot_.outcome();
    if (!outcome.commit) {
      report.skipped = std::move(outcome.why);
      return 0;
    }
    report.applied = 0;
    for (size_t i = 0; i < shared_.size(); ++i) {
      const float average = sums_[i] / static_cast<float>(ranks_);
      const float step = spec_.momentum * momentum_[i] + (shared_[i] - average) / spec_.penalty;
      momentum_[i] = std::clamp(step, -spec_.clip, spec_.clip);
      shared_[i] -= spec_.rate * momentum_[i];
    }
    if (spec_.shards == 0) {
      std::copy(shared_.begin(), shared_.end(), whole_.begin());
    } else {
      gather();
    }
    std::copy(whole_.begin(), whole_.end(), params.begin());
    return spec_.shards == 0 ? 0 : (ranks_ - 1) * std::ssize(shared_) * 4;
  }

  void drop() {
    if (is_pending_) wait();
  }

  std::span<const float> shared() const { return shared_; }

 private:
  /// Every rank's shard, of the parameters that all know; momentum begins anew in a new group.
  void share() {
    counts_.assign(at(ranks_), spec_.shards == 0 ? whole_.size() : 0);
    const size_t each = spec_.shards == 0 ? 0 : whole_.size() / at(spec_.shards);
    const size_t more = spec_.shards == 0 ? 0 : whole_.size() % at(spec_.shards);
    size_t begin = 0;
    for (int r = 0; r < spec_.shards; ++r) {
      counts_[at(r)] = each + (at(r) < more);
      if (r < rank_) begin += counts_[at(r)];
    }
    if (counts_[at(rank_)] == 0) begin = 0;
    const auto first = whole_.begin() + static_cast<ptrdiff_t>(begin);
    shared_.assign(first, first + static_cast<ptrdiff_t>(counts_[at(rank_)]));
    momentum_.assign(shared_.size(), 0.0f);
    sums_.assign(shared_.size(), 0.0f);
  }

  void gather() {
    expect_success(tuttiAllGatherV(shared_.data(), shared_.size(), whole_.data(), counts_.data(),
                                   nullptr, tuttiFloat32, group_.comm, tuttiBlocking()),
                   group_.comm, "the gather of CO2's shards");
  }

  std::pair<tuttiResult_t, tuttiResult_t> wait() {
    const tuttiResult_t voted = ballot_.wait(), moved = wait_for(request_);
    is_pending_ = false;
    return {voted, moved};
  }

  struct EndedStep {
    Impl& impl;
    ~EndedStep() { impl.drop(); }
  };

  Co2Spec spec_;
  OuterGroup group_;
  int ranks_ = 0;
  int rank_ = 0;
  std::vector<float> whole_;              // the shared parameters, as this rank last knew them
  std::vector<float> shared_, momentum_;  // this rank's shard
  std::vector<float> sent_, sums_;
  std::vector<size_t> counts_;  // of each rank's shard
  OuterStream stream_;
  VoteRound ballot_;
  tuttiRequest_t request_ = nullptr;
  bool is_pending_ = false;
  EndedStep ended_{*this};  // before anything that an exchange uses is freed
};

Co2::Co2(OuterGroup group, std::span<const float> params, const Co2Spec& spec)
    : OuterOptimizer(group, std::ssize(params)), impl_(std::make_unique<Impl>(params, spec)) {
  impl_->join(group);
}
Co2::~Co2() = default;

std::span<const float> Co2::shared() const { return impl_->shared(); }

OuterReport Co2::at_boundary(int64_t step, std::span<float> params, bool commit) {
  OuterReport report;
  if (!impl_->is_turn(step)) return report;
  const std::vector<float> local(params.begin(), params.end());
  if (impl_->is_pending()) count_bytes(impl_->apply(params, report));
  report.launched = 0;
  count_bytes(impl_->launch(step, local, commit));
  return report;
}

OuterReport Co2::take_rest(std::span<float> params) {
  OuterReport report;
  if (impl_->is_pending()) count_bytes(impl_->apply(params, report));
  return report;
}

void Co2::join_group() { impl_->join(group()); }

}  // namespace tutti::runtime
