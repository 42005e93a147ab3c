// The few statistics that the tables quote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti::perf {

/// The value below which `fraction` of the values lie, interpolated between neighbours (numpy's
/// default). Requires: not empty, 0 <= fraction <= 1.
double quantile(std::vector<double> values, double fraction);
double median(std::vector<double> values);

/// A summary of the times of single iterations.
struct Summary {
  double least = 0;
  double greatest = 0;
  double mean = 0;
  double deviation = 0;  // of the values, not an estimate for more of them
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;

  double deviation_percent() const { return mean > 0 ? 100 * deviation / mean : 0; }
};
/// Requires: not empty.
Summary summarize(std::span<const double> values);

struct Interval {
  double low;
  double high;
};

/// The bootstrap interval of the median: draws as many values with replacement, takes the median,
/// many times; the interval holds the middle `confidence` of those medians. The same seed gives the
/// same interval. Requires: not empty.
struct Bootstrap {
  double confidence = 0.9;
  size_t draws = 4000;
  uint64_t seed = 1;
};
Interval median_interval(std::span<const double> values, const Bootstrap& bootstrap = {});

}  // namespace tutti::perf
