// How much of a step goes to the disk: the step is simulated for every amount.
#include <algorithm>
#include <cmath>
#include <map>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/offload.h"

namespace tutti::runtime {
namespace {

/// One step. Writes go one after the other in the order of the forward pass, reads in that of the
/// backward pass; the disk does one of each at a time.
class OffloadStep {
 public:
  OffloadStep(std::span<const OffloadItem> items, const OffloadRates& rates, Bytes budget)
      : items_(items), rates_(rates), budget_(budget.value), write_ends_(items.size(), -1) {}

  OffloadPlan run(int offloaded) {
    forward(offloaded);
    const int64_t turn = now_;
    read_end_ = turn;
    for (int64_t i = std::ssize(items_) - 1; i >= 0; --i) backward(i, turn);
    OffloadPlan plan;
    plan.offloaded = offloaded;
    plan.step = Nanoseconds(now_);
    plan.written = written_;
    int64_t held = 0;
    for (const auto& [time, change] : changes_) {
      held += change;
      plan.peak = std::max(plan.peak, Bytes(held));
      if (change != 0) plan.events.push_back({Nanoseconds(time), Bytes(change)});
    }
    return plan;
  }

 private:
  int64_t time_of(int64_t bytes, double rate) const {
    return checked_round(std::ceil(double(bytes) / rate * 1e9), "the time of a storage in ns");
  }

  void forward(int offloaded) {
    int64_t write_end = 0;
    for (int64_t i = 0; i < std::ssize(items_); ++i) {
      const int64_t bytes = items_[at(i)].bytes.value;
      now_ = room(now_ + items_[at(i)].forward.value, bytes);
      changes_[now_] += bytes;
      if (i >= offloaded) continue;
      write_end = std::max(write_end, now_) + time_of(bytes, rates_.write);
      write_ends_[at(i)] = write_end;
      changes_[write_end] -= bytes;
    }
  }

  void backward(int64_t i, int64_t turn) {
    const int64_t bytes = items_[at(i)].bytes.value, written = write_ends_[at(i)];
    asked_.push_back(now_);  // the last storage is asked for first
    const bool is_forwarded = written > now_;
    if (is_forwarded) {
      changes_[written] += bytes;  // it stays until its use has ended, as what was kept does
    } else if (written >= 0) {
      written_ += Bytes(bytes);
      const int64_t before = std::ssize(asked_) - 1 - kReadAhead;
      const int64_t may_begin = before < 0 ? turn : asked_[at(before)];
      const int64_t start = room(std::max({read_end_, written, may_begin}), bytes);
      changes_[start] += bytes;
      read_end_ = start + time_of(bytes, rates_.read);
      now_ = std::max(now_, read_end_);
    }
    now_ += items_[at(i)].backward.value;
    changes_[now_] -= bytes;
  }

  /// The first time from this one on, at which so much more fits for good.
  int64_t room(int64_t from, int64_t bytes) const {
    int64_t held = 0, time = from;
    bool fits = true;
    for (const auto& [when, change] : changes_) {
      held += change;
      const bool is_room = held + bytes <= budget_;
      if (when <= from) {
        fits = is_room;
      } else if (!fits && is_room) {
        time = when;
        fits = true;
      } else if (!is_room) {
        fits = false;
      }
    }
    if (bytes > budget_ || !fits) {
      infeasible("a storage of ", bytes, " bytes does not fit beside the ", held,
                 " bytes that stay, into a budget of ", budget_, "; raise the budget");
    }
    return time;
  }

  std::span<const OffloadItem> items_;
  OffloadRates rates_;
  int64_t budget_;
  std::vector<int64_t> write_ends_;     // -1: it is kept
  std::map<int64_t, int64_t> changes_;  // of held bytes, by time
  std::vector<int64_t> asked_;          // when the backward pass came to each storage
  int64_t now_ = 0, read_end_ = 0;
  Bytes written_{0};
};

Nanoseconds check_items(std::span<const OffloadItem> items, const OffloadRates& rates,
                        Bytes budget) {
  require(budget >= Bytes(1), "a budget of ", budget.value, " bytes; give 1 or more");
  for (const double rate : {rates.write, rates.read}) {
    require(std::isfinite(rate) && rate > 0, "a rate of ", rate,
            " bytes a second; give a finite one above 0");
  }
  constexpr int64_t kMostItems = 512;  // the work of a plan grows with their cube
  require(std::ssize(items) <= kMostItems, items.size(), " storages in a step; plan at most ",
          kMostItems, " of the larger ones");
  int64_t time = 0, bytes = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    require(items[i].bytes >= Bytes(0) && items[i].forward >= Nanoseconds(0) &&
                items[i].backward >= Nanoseconds(0),
            "storage ", i, " has a negative size or time");
    time = checked_sum(time, items[i].forward.value, "the step's time");
    time = checked_sum(time, items[i].backward.value, "the step's time");
    bytes = checked_sum(bytes, items[i].bytes.value, "the step's bytes");
  }
  return Nanoseconds(time);
}

}  // namespace

OffloadPlan simulate_offload(std::span<const OffloadItem> items, const OffloadRates& rates,
                             Bytes budget, int offloaded) {
  const Nanoseconds without = check_items(items, rates, budget);
  require(offloaded >= 0 && offloaded <= std::ssize(items), offloaded, " of ", items.size(),
          " storages cannot be offloaded");
  OffloadPlan plan = OffloadStep(items, rates, budget).run(offloaded);
  plan.without = without;
  return plan;
}

OffloadPlan plan_offload(std::span<const OffloadItem> items, const OffloadRates& rates,
                         Bytes budget, double slack) {
  const Nanoseconds without = check_items(items, rates, budget);
  require(slack >= 0 && slack <= 1, "a slack of ", slack, " of the step; give 0 to 1");
  const auto most = checked_round(double(without.value) * (1 + slack), "the step's time");
  std::string reason;
  OffloadPlan best;
  bool found = false;
  for (int count = int(std::ssize(items)); count >= 0; --count) {
    try {
      OffloadPlan plan = OffloadStep(items, rates, budget).run(count);
      plan.without = without;
      if (plan.step.value <= most) return plan;
      if (!found || plan.step < best.step) best = std::move(plan);
      found = true;
    } catch (const Error& error) {
      reason = reason.empty() ? error.what() : reason;
    }
  }
  if (!found) infeasible("no amount fits the budget; with all on the disk: ", reason);
  return best;
}

}  // namespace tutti::runtime
