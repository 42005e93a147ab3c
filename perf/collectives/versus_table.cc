#include "perf/collectives/versus_table.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

namespace tutti::perf {
namespace {

/// The two times of one round.
struct Pair {
  double tutti_us = 0;
  double mpi_us = 0;
};

using SizeKey = std::tuple<std::string, int, std::string, size_t>;
using PairsByRound = std::map<size_t, Pair>;
using PairsByConfiguration = std::map<std::string, PairsByRound>;

Comparison summarize(const std::string& configuration, const PairsByRound& pairs) {
  Comparison comparison;
  comparison.configuration = configuration;
  for (const auto& [round, pair] : pairs) {
    if (pair.tutti_us <= 0 || pair.mpi_us <= 0) continue;
    comparison.tutti_us.push_back(pair.tutti_us);
    comparison.mpi_us.push_back(pair.mpi_us);
    comparison.ratios.push_back(pair.mpi_us / pair.tutti_us);
  }
  if (!comparison.ratios.empty()) comparison.median_ratio = median(comparison.ratios);
  return comparison;
}

void print_common(size_t bytes, const Comparison& comparison) {
  const auto [least, greatest] =
      std::minmax_element(comparison.ratios.begin(), comparison.ratios.end());
  std::printf("%12zu  %-18s %12.3f %12.3f %9.2f (%.2f..%.2f)", bytes,
              comparison.configuration.c_str(), median(comparison.tutti_us),
              median(comparison.mpi_us), comparison.median_ratio, *least, *greatest);
}

void print_heading(const SizeComparison& first) {
  std::printf("#\n# %s, %d ranks, %s: every configuration of MPI\n", first.collective.c_str(),
              first.ranks, first.mode.c_str());
  std::printf("# %10s  %-18s %12s %12s %9s (min..max)\n", "bytes", "configuration", "Tutti us",
              "MPI us", "MPI/Tutti");
}

void print_best(const std::vector<const SizeComparison*>& sizes) {
  std::printf("#\n# %s, %d ranks, %s: the best configuration of MPI at each size\n",
              sizes[0]->collective.c_str(), sizes[0]->ranks, sizes[0]->mode.c_str());
  std::printf("# %10s  %-18s %12s %12s %9s (min..max), 90%% interval of the median, rounds\n",
              "bytes", "best", "Tutti us", "MPI us", "MPI/Tutti");
  for (const SizeComparison* size : sizes) {
    const Comparison& best = size->best();
    const Interval interval = median_interval(best.ratios);
    print_common(size->bytes, best);
    std::printf("  [%.2f, %.2f]  %zu\n", interval.low, interval.high, best.ratios.size());
  }
}

constexpr const char* kExplanation = R"(#
# Times: median over the rounds; a round's time is that of its slowest rank, per iteration.
# MPI/Tutti: median (min..max) over the rounds of MPI's time / Tutti's time in the same round;
#   above 1, Tutti is faster. Both run in the same processes on the same buffers, and the order
#   changes every round. Iterations rotate over 1 MiB / bytes pairs of buffers (at least 1, at most
#   8, a power of two). Stepped: an untimed barrier before every call; fresh: and the input's cache
#   lines written before that. Both results were checked before the first round, and both warmed up
#   by as many calls as fill Tutti's staging ring twice.
# best: per size, the MPI configuration with the lowest median of MPI/Tutti, that is, the one
#   against which Tutti looks worst; chosen on the very rounds it is quoted from.
# 90% interval: bootstrap over the rounds of the best configuration (4000 draws, fixed seed).
#   It holds the noise of the rounds, not that of the choice of best.
)";

}  // namespace

const Comparison& SizeComparison::best() const {
  return *std::min_element(
      configurations.begin(), configurations.end(),
      [](const Comparison& a, const Comparison& b) { return a.median_ratio < b.median_ratio; });
}

std::vector<SizeComparison> compare(const std::vector<Round>& rounds) {
  std::map<SizeKey, PairsByConfiguration> sizes;
  for (const Round& round : rounds) {
    const SizeKey key{round.collective, round.ranks, round.mode, round.bytes};
    Pair& pair = sizes[key][round.configuration][round.round];
    (round.variant == kTuttiVariant ? pair.tutti_us : pair.mpi_us) = round.us;
  }
  std::vector<SizeComparison> comparisons;
  for (const auto& [key, configurations] : sizes) {
    SizeComparison size;
    std::tie(size.collective, size.ranks, size.mode, size.bytes) = key;
    for (const auto& [configuration, pairs] : configurations) {
      Comparison comparison = summarize(configuration, pairs);
      if (!comparison.ratios.empty()) size.configurations.push_back(std::move(comparison));
    }
    if (!size.configurations.empty()) comparisons.push_back(std::move(size));
  }
  return comparisons;
}

void print_comparisons(const std::vector<SizeComparison>& comparisons) {
  for (size_t i = 0; i < comparisons.size();) {
    const SizeComparison& first = comparisons[i];
    std::vector<const SizeComparison*> group;
    for (; i < comparisons.size(); ++i) {
      const SizeComparison& next = comparisons[i];
      const bool same = next.collective == first.collective && next.ranks == first.ranks &&
                        next.mode == first.mode;
      if (!same) break;
      group.push_back(&next);
    }
    print_heading(first);
    for (const SizeComparison* size : group) {
      for (const Comparison& comparison : size->configurations) {
        print_common(size->bytes, comparison);
        std::printf("\n");
      }
    }
    print_best(group);
  }
  std::fputs(kExplanation, stdout);
  std::fflush(stdout);
}

}  // namespace tutti::perf
