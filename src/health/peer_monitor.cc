#include "src/health/peer_monitor.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "src/health/delay_matrix.h"

namespace tutti::health {

Result<PeerMonitor> PeerMonitor::make(uint32_t ranks, uint32_t signals, const MonitorRules& rules) {
  constexpr uint32_t kFewest = 4;
  if (ranks < kFewest || signals == 0) {
    return Status::invalid_argument(std::to_string(ranks) + " ranks with " +
                                    std::to_string(signals) +
                                    " signals: to compare peers takes four ranks and a signal");
  }
  if (!(rules.floor > 0) || !(rules.score > 0) || rules.windows == 0) {
    return Status::invalid_argument("a monitor's score, floor and windows are above 0");
  }
  return PeerMonitor(ranks, signals, rules);
}

Result<std::vector<uint32_t>> PeerMonitor::add(uint64_t window,
                                               const std::vector<SignalSample>& samples) {
  if (samples.size() != size_t{ranks_} * signals_) {
    return Status::invalid_argument(std::to_string(samples.size()) + " samples for " +
                                    std::to_string(ranks_) + " ranks with " +
                                    std::to_string(signals_) + " signals");
  }
  if (has_begun_ && window <= window_) {
    return Status::invalid_usage("window " + std::to_string(window) + " comes after window " +
                                 std::to_string(window_));
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].window <= window && samples[i].window + rules_.stale >= window) continue;
    return Status::invalid_usage("the sample of rank " + std::to_string(i / signals_) +
                                 " is of window " + std::to_string(samples[i].window) +
                                 ", this is window " + std::to_string(window));
  }
  window_ = window;
  has_begun_ = true;
  std::vector<uint32_t> stands_out(ranks_, 0);  // signals
  for (uint32_t signal = 0; signal < signals_; ++signal) {
    std::vector<double> values;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      values.push_back(samples[size_t{rank} * signals_ + signal].value);
    }
    const double middle = median(values);
    const double spread =
        std::max({1.4826 * deviation(values), rules_.floor * std::fabs(middle), 1e-12});
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      stands_out[rank] += (values[rank] - middle) / spread > rules_.score ? 1 : 0;
    }
  }
  std::vector<uint32_t> suspects;
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    in_a_row_[rank] = stands_out[rank] >= std::min(2u, signals_) ? in_a_row_[rank] + 1 : 0;
    if (in_a_row_[rank] >= rules_.windows) suspects.push_back(rank);
  }
  return suspects;
}

}  // namespace tutti::health
