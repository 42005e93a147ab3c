#include "src/health/spares.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "src/base/prng.h"

namespace tutti::health {
namespace {

constexpr double kSecondsPerHour = 3600;

double log_choose(double n, double k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

// All trays of a job, each of which works or is repaired, and what that makes of blocks and zones.
class TrayCounts {
 public:
  explicit TrayCounts(const SpareModel& model)
      : model_(model),
        blocks_of_zone_(model.blocks + model.spare_blocks),
        down_trays_(size_t{model.zones} * blocks_of_zone_, 0),
        down_blocks_(model.zones, 0) {}

  size_t trays() const { return down_trays_.size() * model_.trays; }

  void set_down(size_t tray, bool down) {
    const size_t block = tray / model_.trays, zone = block / blocks_of_zone_;
    const bool was = is_down(block);
    down_trays_[block] += down ? 1 : -1;
    if (was == is_down(block)) return;
    blocks_down_ += down ? 1 : -1;
    const bool zone_was = down_blocks_[zone] > model_.spare_blocks;
    down_blocks_[zone] += down ? 1u : ~0u;
    const bool zone_is = down_blocks_[zone] > model_.spare_blocks;
    if (zone_was != zone_is) zones_down_ += down ? 1 : -1;
  }

  double share_of_blocks() const {
    return 1 - static_cast<double>(blocks_down_) / static_cast<double>(down_trays_.size());
  }
  bool runs() const { return zones_down_ == 0; }

 private:
  bool is_down(size_t block) const {
    return down_trays_[block] > static_cast<int64_t>(model_.spare_trays);
  }

  const SpareModel& model_;
  const size_t blocks_of_zone_;
  std::vector<int64_t> down_trays_;    // by block
  std::vector<uint32_t> down_blocks_;  // by zone
  int64_t blocks_down_ = 0, zones_down_ = 0;
};

}  // namespace

Status check(const SpareModel& model) {
  const auto refuse = [](const std::string& why) { return Status::invalid_argument(why); };
  if (model.zones == 0 || model.blocks == 0 || model.trays == 0) {
    return refuse("zones, blocks and trays are 1 or more");
  }
  if (model.spare_trays >= model.trays) {
    return refuse(std::to_string(model.spare_trays) + " spare trays of " +
                  std::to_string(model.trays) + " leave none that works");
  }
  constexpr uint64_t kMost = 1 << 26;
  if (uint64_t{model.zones} * (uint64_t{model.blocks} + model.spare_blocks) > kMost ||
      uint64_t{model.zones} * (uint64_t{model.blocks} + model.spare_blocks) * model.trays > kMost) {
    return refuse("there are more than " + std::to_string(kMost) + " trays");
  }
  if (!(model.failure_hours > 0) || !(model.repair_hours > 0) ||
      !std::isfinite(model.failure_hours) || !std::isfinite(model.repair_hours)) {
    return refuse("the times between failures and of repairs are above 0, and finite");
  }
  if (!(model.checkpoint_s > 0) || !(model.detect_s >= 0) || !(model.restart_s >= 0)) {
    return refuse("a checkpoint takes more than 0 s, detecting and restarting not less than 0 s");
  }
  if (model.interval_s != 0 && !(model.interval_s > model.checkpoint_s)) {
    return refuse("checkpoints every " + std::to_string(model.interval_s) + " s that take " +
                  std::to_string(model.checkpoint_s) + " s leave no time to train");
  }
  return {};
}

double at_most_failed(uint32_t n, uint32_t k, double q) {
  if (k >= n || q <= 0) return 1;
  if (q >= 1) return 0;
  // The smaller tail is summed, so that neither is lost in rounding.
  const bool low = k < q * n;
  double sum = 0;
  for (uint32_t j = low ? 0 : k + 1; j <= (low ? k : n); ++j) {
    sum += std::exp(log_choose(n, j) + j * std::log(q) + (n - j) * std::log1p(-q));
  }
  return std::clamp(low ? sum : 1 - sum, 0.0, 1.0);
}

double young_interval_s(double failure_s, double checkpoint_s) {
  return std::sqrt(2 * checkpoint_s * failure_s);
}

double daly_interval_s(double failure_s, double checkpoint_s) {
  if (checkpoint_s >= 2 * failure_s) return failure_s;
  const double x = checkpoint_s / (2 * failure_s);
  return young_interval_s(failure_s, checkpoint_s) * (1 + std::sqrt(x) / 3 + x / 9) - checkpoint_s;
}

Result<SparePrediction> predict(const SpareModel& model) {
  if (Status status = check(model); !status.ok()) return status;
  SparePrediction made;
  made.tray = model.failure_hours / (model.failure_hours + model.repair_hours);
  made.block = at_most_failed(model.trays, model.spare_trays, 1 - made.tray);
  made.zone = at_most_failed(model.blocks + model.spare_blocks, model.spare_blocks, 1 - made.block);
  made.running = std::pow(made.zone, model.zones);
  const double used = 1.0 * model.zones * model.blocks * (model.trays - model.spare_trays);
  const double all = 1.0 * model.zones * (model.blocks + model.spare_blocks) * model.trays;
  made.failures_per_h = used / model.failure_hours;
  const double failure_s = kSecondsPerHour / made.failures_per_h;
  made.interval_s = model.interval_s;
  if (made.interval_s == 0) {
    made.interval_s =
        std::max(young_interval_s(failure_s, model.checkpoint_s), 1.001 * model.checkpoint_s);
  }
  const double lost = (made.interval_s / 2 + model.detect_s + model.restart_s) / failure_s;
  const double goes_on = 1 - model.checkpoint_s / made.interval_s - lost;
  made.effective = made.running * std::max(0.0, goes_on);
  made.used = used / all;
  made.goodput = made.effective * made.used;
  return made;
}

Result<SpareSimulation> simulate_spares(const SpareModel& model, uint64_t seed, uint64_t failures) {
  if (Status status = check(model); !status.ok()) return status;
  Prng random(seed);
  const auto after = [&](double mean) { return -mean * std::log1p(-random.unit()); };
  TrayCounts counts(model);
  std::vector<bool> down(counts.trays(), false);
  using Event = std::pair<double, size_t>;  // when, and of which tray
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  // It begins as it is in the long run.
  const double works = model.failure_hours / (model.failure_hours + model.repair_hours);
  for (size_t tray = 0; tray < down.size(); ++tray) {
    down[tray] = random.unit() >= works;
    if (down[tray]) counts.set_down(tray, true);
    events.emplace(after(down[tray] ? model.repair_hours : model.failure_hours), tray);
  }
  SpareSimulation result;
  double now = 0;
  while (result.failures < failures) {
    const auto [time, tray] = events.top();
    events.pop();
    result.block += (time - now) * counts.share_of_blocks();
    result.running += counts.runs() ? time - now : 0;
    now = time;
    down[tray] = !down[tray];
    result.failures += down[tray] ? 1 : 0;
    counts.set_down(tray, down[tray]);
    events.emplace(now + after(down[tray] ? model.repair_hours : model.failure_hours), tray);
  }
  if (now > 0) {
    result.block /= now;
    result.running /= now;
  }
  return result;
}

Result<SpareModel> best_spares(const SpareModel& model, uint32_t most_blocks, uint32_t most_trays) {
  // A block keeps the trays that it computes with.
  const uint32_t computing = model.trays - std::min(model.trays, model.spare_trays);
  SpareModel best = model;
  double most = -1;
  for (uint32_t blocks = 0; blocks <= most_blocks; ++blocks) {
    for (uint32_t trays = 0; trays <= most_trays; ++trays) {
      SpareModel tried = model;
      tried.spare_blocks = blocks;
      tried.spare_trays = trays;
      tried.trays = computing + trays;
      const Result<SparePrediction> made = predict(tried);
      if (!made.ok()) return made.status();
      if (made.value().goodput <= most) continue;
      most = made.value().goodput;
      best = tried;
    }
  }
  return best;
}

}  // namespace tutti::health
