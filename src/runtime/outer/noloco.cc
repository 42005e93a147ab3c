#include "tutti/runtime/outer/noloco.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/outer/pair_exchange.h"
#include "src/runtime/outer/specs.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/exchange.h"

namespace tutti::runtime {

std::vector<int> gossip_pairs(uint64_t seed, int64_t round, int ranks, OddRank odd) {
  require(ranks >= 1 && round >= 0, "round ", round, " of ", ranks, " ranks");
  require(ranks % 2 == 0 || odd == OddRank::kIdle, ranks,
          " ranks do not go in pairs; use an even number, or let one idle (OddRank::kIdle)");
  std::vector<int> order(at(ranks));
  std::iota(order.begin(), order.end(), 0);
  Fingerprint draw;
  draw.add(static_cast<int64_t>(seed));
  draw.add(round);
  for (size_t i = order.size(); i > 1; --i) {
    draw.add(static_cast<int64_t>(i));
    std::swap(order[i - 1], order[draw.value() % i]);
  }
  std::vector<int> partner(at(ranks), -1);
  for (size_t i = 0; i + 1 < order.size(); i += 2) {
    partner[at(order[i])] = order[i + 1];
    partner[at(order[i + 1])] = order[i];
  }
  return partner;
}

double consensus_rate(double alpha, double gamma) {
  // With p = E slow^2, c = E slow * m, q = E m^2, and pairs that are drawn anew each round:
  // m' = alpha * m + gamma / 2 * (theirs - slow),  slow' = slow + m'.
  double p = 1, c = 0, q = 0, rate = 0;
  constexpr int kRounds = 4000;
  for (int round = 0; round < 2 * kRounds; ++round) {
    const double q_next = alpha * alpha * q - alpha * gamma * c + gamma * gamma / 2 * p;
    const double slow_m = alpha * c - gamma / 2 * p;
    const double p_next = p + 2 * slow_m + q_next;
    c = slow_m + q_next;
    p = p_next;
    q = q_next;
    const double size = std::max({std::fabs(p), std::fabs(c), std::fabs(q), 1e-300});
    // Complex eigenvalues turn, so the rate is a mean of logarithms over many rounds.
    if (round >= kRounds) rate += std::log(size);
    p /= size;
    c /= size;
    q /= size;
  }
  return std::exp(rate / kRounds);
}

double expected_pair_wait(double sigma) {
  require(sigma >= 0, "sigma is ", sigma, "; give 0 or more");
  return 1 + std::erf(sigma / 2);
}

int tree_waits(int ranks) {
  require(ranks >= 1, ranks, " ranks; give 1 or more");
  return 2 * static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
}

namespace {

void check_spec(const NoLoCoSpec& spec) {
  require(spec.period >= 1, "a period of ", spec.period, " steps; give 1 or more");
  require(spec.delay >= 0 && spec.delay < spec.period, "a delay of ", spec.delay,
          " steps; give 0 to ", spec.period - 1, ", so that one exchange is under way at a time");
  check_momentum(spec.alpha, "alpha");
  check_rate(spec.eta, "eta");
  const float most = 2 * (1 - spec.alpha * spec.alpha);
  require(spec.gamma > 0 && spec.gamma < most, "gamma is ", spec.gamma, ", and with alpha ",
          spec.alpha, " ranks come together only between 0 and ", most, "; lower gamma or alpha");
}

}  // namespace

class NoLoCo::Impl {
 public:
  Impl(std::span<const float> params, const NoLoCoSpec& spec)
      : spec_(spec),
        slow_(params.begin(), params.end()),
        momentum_(params.size(), 0.0f),
        exchange_(2 * std::ssize(params)) {
    check_spec(spec);
    exchange_.set_timeout(spec.timeout_ns);
  }

  void join(const OuterGroup& group) {
    exchange_.drop();
    partner_ = -1;
    has_failed_ = false;
    group_ = group;
    int ranks = 0;
    expect_success(tuttiCommCount(group.comm, &ranks), group.comm, "tuttiCommCount");
    expect_success(tuttiCommUserRank(group.comm, &rank_), group.comm, "tuttiCommUserRank");
    gossip_pairs(spec_.seed, 0, ranks, spec_.odd);  // refuses what rounds would refuse
    ranks_ = ranks;
    Fingerprint plan;
    for (const int64_t number : {spec_.period, spec_.delay, static_cast<int64_t>(spec_.seed),
                                 static_cast<int64_t>(spec_.odd), std::ssize(slow_)}) {
      plan.add(number);
    }
    for (const float number : {spec_.alpha, spec_.eta, spec_.gamma}) add_bits(plan, number);
    agree(group.comm, plan.value(), "the plan of NoLoCo (its seed, too)");
  }

  bool is_turn(int64_t step) const { return step % spec_.period == 0; }
  bool is_due(int64_t step) const { return partner_ >= 0 && step >= due_; }
  bool is_pending() const { return partner_ >= 0; }

  /// The bytes that it sends.
  int64_t launch(int64_t step, std::span<const float> params, bool commit, OuterReport& report) {
    if (has_failed_) {
      report.skipped = "the communicator has failed; regroup() with the ranks that are left";
      return 0;
    }
    partner_ = gossip_pairs(spec_.seed, step / spec_.period, ranks_, spec_.odd)[at(rank_)];
    if (partner_ < 0) {
      report.skipped = "this rank idles in this round, as their number is odd";
      return 0;
    }
    std::vector<float> own(slow_);
    local_.assign(params.begin(), params.end());
    for (size_t i = 0; i < slow_.size(); ++i) own.push_back(params[i] - slow_[i]);
    const bool is_finite = std::all_of(own.begin(), own.end(), [](float x) { return x - x == 0; });
    exchange_.begin(group_, partner_, {group_.epoch, step, 0, commit && is_finite}, own);
    due_ = step + spec_.delay;
    report.launched = 0;
    return static_cast<int64_t>(own.size() * sizeof(float));
  }

  void apply(std::span<float> params, OuterReport& report) {
    partner_ = -1;
    report.skipped = exchange_.finish();
    if (!report.skipped.empty()) {
      tuttiResult_t state = tuttiSuccess;
      has_failed_ =
          tuttiCommGetAsyncError(group_.comm, &state) != tuttiSuccess || state != tuttiSuccess;
      return;
    }
    report.applied = 0;
    const size_t n = slow_.size();
    const std::span<const float> theirs = exchange_.theirs();
    for (size_t i = 0; i < n; ++i) {
      const float gone = params[i] - local_[i];  // while the exchange was under way
      const float delta = ((local_[i] - slow_[i]) + theirs[n + i]) / 2;
      const float mean = (slow_[i] + theirs[i]) / 2;
      momentum_[i] =
          spec_.alpha * momentum_[i] + spec_.eta * delta + spec_.gamma * (mean - slow_[i]);
      slow_[i] += momentum_[i];
      params[i] = slow_[i] + gone;
    }
  }

  std::span<const float> slow() const { return slow_; }

 private:
  NoLoCoSpec spec_;
  OuterGroup group_;
  int ranks_ = 0;
  int rank_ = 0;
  std::vector<float> slow_, momentum_;
  std::vector<float> local_;  // the parameters as they were when the exchange began
  PairExchange exchange_;
  int partner_ = -1;  // of the exchange that is under way
  int64_t due_ = 0;
  bool has_failed_ = false;
};

NoLoCo::NoLoCo(OuterGroup group, std::span<const float> params, const NoLoCoSpec& spec)
    : OuterOptimizer(group, std::ssize(params)), impl_(std::make_unique<Impl>(params, spec)) {
  impl_->join(group);
}
NoLoCo::~NoLoCo() = default;

std::span<const float> NoLoCo::slow() const { return impl_->slow(); }

OuterReport NoLoCo::at_boundary(int64_t step, std::span<float> params, bool commit) {
  OuterReport report;
  if (impl_->is_due(step)) impl_->apply(params, report);
  if (impl_->is_turn(step)) count_bytes(impl_->launch(step, params, commit, report));
  if (impl_->is_due(step)) impl_->apply(params, report);
  return report;
}

OuterReport NoLoCo::take_rest(std::span<float> params) {
  OuterReport report;
  if (impl_->is_pending()) impl_->apply(params, report);
  return report;
}

void NoLoCo::join_group() { impl_->join(group()); }

}  // namespace tutti::runtime
