#include "src/select/crowd_times.h"

#include <algorithm>
#include <cmath>

namespace tutti::select {

// In an all_to_all a rank publishes a block for each other one, and receives as many.
std::vector<CopyRate> rates_of(const CrowdTimes& crowd) {
  std::vector<CopyRate> rates;
  if (crowd.ranks < 2) return rates;
  const double part = static_cast<double>(crowd.ranks - 1) / crowd.ranks;
  const std::vector<CopiedBytes> ranks(static_cast<size_t>(crowd.ranks), {part, part});
  const CopyLoad load = load_of(ranks, crowd.cores);
  for (const CopyTimes& times : crowd.copies) {
    constexpr double kLeast = 1e-4;  // of a byte; no memory is faster
    const double staged_ns = (times.staged_ns - crowd.step_ns) / (load.staged * times.bytes);
    const double single_ns = (times.single_ns - 2 * crowd.step_ns) / (load.single * times.bytes);
    rates.push_back({2 * part * times.bytes, std::max(staged_ns, kLeast),
                     times.single_ns > 0 ? std::max(single_ns, kLeast) : 0});
  }
  return rates;
}

CopyRate rate_at(const std::vector<CopyRate>& rates, double moved) {
  const auto above = std::find_if(rates.begin(), rates.end(),
                                  [&](const CopyRate& one) { return one.moved >= moved; });
  if (above == rates.end()) return rates.back();
  if (above == rates.begin()) return rates.front();
  const CopyRate& low = *(above - 1);
  const CopyRate& high = *above;
  const double part = std::log(moved / low.moved) / std::log(high.moved / low.moved);
  const auto between = [&](double a, double b) { return a + part * (b - a); };
  const bool knows_single = low.single_ns_per_byte > 0 && high.single_ns_per_byte > 0;
  return {moved, between(low.staged_ns_per_byte, high.staged_ns_per_byte),
          knows_single ? between(low.single_ns_per_byte, high.single_ns_per_byte) : 0};
}

CopyLoad load_of(const std::vector<CopiedBytes>& ranks, int cores) {
  CopyLoad busiest, all;
  for (const CopiedBytes& rank : ranks) {
    busiest.staged = std::max(busiest.staged, rank.published + rank.received);
    busiest.single = std::max(busiest.single, rank.received);
    all.staged += rank.published + rank.received;
    all.single += rank.received;
  }
  const double share = 1.0 / std::max(1, cores);
  return {std::max(busiest.staged, all.staged * share),
          std::max(busiest.single, all.single * share)};
}

}  // namespace tutti::select
