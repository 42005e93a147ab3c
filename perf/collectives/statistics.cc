#include "perf/collectives/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <random>

namespace tutti::perf {

double quantile(std::vector<double> values, double fraction) {
  assert(!values.empty() && fraction >= 0 && fraction <= 1);
  std::sort(values.begin(), values.end());
  const double position = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  const double weight = position - static_cast<double>(below);
  return values[below] + weight * (values[above] - values[below]);
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

Summary summarize(std::span<const double> values) {
  const std::vector<double> all(values.begin(), values.end());
  Summary summary;
  summary.least = quantile(all, 0);
  summary.greatest = quantile(all, 1);
  summary.p50 = quantile(all, 0.5);
  summary.p95 = quantile(all, 0.95);
  summary.p99 = quantile(all, 0.99);
  for (const double value : all) summary.mean += value / static_cast<double>(all.size());
  double variance = 0;
  for (const double value : all) {
    variance += (value - summary.mean) * (value - summary.mean) / static_cast<double>(all.size());
  }
  summary.deviation = std::sqrt(variance);
  return summary;
}

Interval median_interval(std::span<const double> values, const Bootstrap& bootstrap) {
  std::mt19937_64 random(bootstrap.seed);
  std::vector<double> medians(bootstrap.draws);
  std::vector<double> drawn(values.size());
  for (double& result : medians) {
    for (double& value : drawn) value = values[random() % values.size()];
    result = median(drawn);
  }
  const double outside = (1 - bootstrap.confidence) / 2;
  return {quantile(medians, outside), quantile(medians, 1 - outside)};
}

}  // namespace tutti::perf
