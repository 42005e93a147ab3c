#include "tutti/runtime/outer/sparse_loco.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/outer/specs.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/exchange.h"

namespace tutti::runtime {
namespace {

constexpr int64_t kMostSide = 64;

int64_t side_of(int64_t length) {
  int64_t side = std::min(length, kMostSide);
  while (length % side != 0) --side;
  return side;
}

void check_order(const std::vector<int64_t>& order, int64_t elements) {
  if (order.empty()) return;
  std::vector<bool> seen(at(elements), false);
  for (const int64_t place : order) {
    require(place >= 0 && place < elements && !seen[at(place)], "element ", place,
            " is not there or occurs twice in the order; give each element once");
    seen[at(place)] = true;
  }
  require(std::ssize(order) == elements, "the order has ", order.size(), " of ", elements,
          " elements; give each element once");
}

}  // namespace

std::vector<int64_t> tile_order(int64_t rows, int64_t columns) {
  require(rows >= 1 && columns >= 1, rows, " rows of ", columns, " columns; give 1 or more");
  std::vector<int64_t> order;
  order.reserve(at(checked_product(rows, columns, "the number of elements")));
  const int64_t high = side_of(rows), wide = rows == 1 ? columns : side_of(columns);
  for (int64_t top = 0; top < rows; top += high) {
    for (int64_t left = 0; left < columns; left += wide) {
      for (int64_t r = top; r < top + high; ++r) {
        for (int64_t c = left; c < left + wide; ++c) order.push_back(r * columns + c);
      }
    }
  }
  return order;
}

class SparseLoCo::Impl {
 public:
  Impl(std::span<const float> params, SparseLoCoSpec spec)
      : spec_(std::move(spec)), outer_(params.begin(), params.end()), error_(params.size(), 0.0f) {
    require(spec_.period >= 1, "a period of ", spec_.period, " steps; give 1 or more");
    check_rate(spec_.rate, "rate");
    require(spec_.beta >= 0 && spec_.beta <= 1, "beta is ", spec_.beta, "; give 0 to 1");
    check_order(spec_.order, std::ssize(params));
  }

  void join(const OuterGroup& group) {
    Fingerprint plan;
    plan.add(spec_.period);
    plan.add(static_cast<int64_t>(spec_.normalise));
    add_bits(plan, spec_.rate);
    for (const int64_t place : spec_.order) plan.add(place);
    add_bits(plan, outer_);
    agree(group.comm, plan.value(), "the plan of SparseLoCo");
    gather_ =
        std::make_unique<CodedGather>(group.comm, spec_.codec, std::ssize(outer_), spec_.normalise);
    epoch_ = group.epoch;
  }

  bool is_turn(int64_t step) const { return step % spec_.period == 0; }

  int64_t exchange(int64_t step, std::span<float> params, bool commit, OuterReport& report) {
    std::vector<float> gone(params.size()), mean(params.size());
    for (size_t k = 0; k < gone.size(); ++k) gone[k] = outer_[place(k)] - params[place(k)];
    const tuttiCodecFeedback_t feedback{sizeof feedback, error_.data(), error_.size(), spec_.beta,
                                        0};
    report.launched = 0;
    gather_->begin({epoch_, step, 0, commit}, gone, &feedback);
    GatherOutcome outcome = gather_->finish(mean);
    if (outcome.commit) {
      report.applied = 0;
      for (size_t k = 0; k < mean.size(); ++k) {
        outer_[place(k)] -= spec_.rate * mean[k];
        params[place(k)] = outer_[place(k)];
      }
    } else {
      report.skipped = std::move(outcome.why);
    }
    return gather_->bytes_of_exchange();
  }

  std::span<const float> outer() const { return outer_; }
  std::span<const float> error() const { return error_; }

 private:
  size_t place(size_t k) const { return spec_.order.empty() ? k : at(spec_.order[k]); }

  SparseLoCoSpec spec_;
  std::vector<float> outer_, error_;
  std::unique_ptr<CodedGather> gather_;
  int64_t epoch_ = 0;
};

SparseLoCo::SparseLoCo(OuterGroup group, std::span<const float> params, SparseLoCoSpec spec)
    : OuterOptimizer(group, std::ssize(params)),
      impl_(std::make_unique<Impl>(params, std::move(spec))) {
  impl_->join(group);
}
SparseLoCo::~SparseLoCo() = default;

std::span<const float> SparseLoCo::outer() const { return impl_->outer(); }
std::span<const float> SparseLoCo::error() const { return impl_->error(); }

OuterReport SparseLoCo::at_boundary(int64_t step, std::span<float> params, bool commit) {
  OuterReport report;
  if (impl_->is_turn(step)) count_bytes(impl_->exchange(step, params, commit, report));
  return report;
}

OuterReport SparseLoCo::take_rest(std::span<float> /*params*/) { return {}; }

void SparseLoCo::join_group() { impl_->join(group()); }

}  // namespace tutti::runtime
