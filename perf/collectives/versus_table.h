// From the rounds of a comparison to its tables.
//
// A ratio is the MPI time of a round divided by the Tutti time of the same round: both ran in the
// same processes, one right after the other. For every collective, number of ranks, mode and size,
// the best MPI configuration is the one whose ratios have the lowest median: the one against which
// Tutti looks worst. It is chosen on the rounds that are then quoted, which favours MPI.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "perf/collectives/rounds.h"
#include "perf/collectives/statistics.h"

namespace tutti::perf {

/// One configuration of MPI at one size.
struct Comparison {
  std::string configuration;
  std::vector<double> tutti_us;  // by round; the same length as the others
  std::vector<double> mpi_us;
  std::vector<double> ratios;
  double median_ratio = 0;
};

/// Everything at one size.
struct SizeComparison {
  std::string collective;
  int ranks = 0;
  std::string mode;
  size_t bytes = 0;
  std::vector<Comparison> configurations;  // never empty

  const Comparison& best() const;
};

/// Rounds of which one variant is missing are left out. Ordered by collective, ranks, mode, bytes.
std::vector<SizeComparison> compare(const std::vector<Round>& rounds);

/// The tables, and how to read them, on stdout.
void print_comparisons(const std::vector<SizeComparison>& comparisons);

}  // namespace tutti::perf
