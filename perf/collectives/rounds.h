// The raw result of a comparison: one line per timed round, as CSV.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tutti::perf {

/// One variant, timed once: the slowest rank's time of the round's loop, per iteration.
struct Round {
  std::string configuration;  // how MPI was set up: "ompi-nocma:tuned"
  std::string mode;           // "free-running" or "stepped"
  int ranks = 0;
  std::string collective;
  size_t bytes = 0;
  size_t round = 0;     // the two variants of one round ran one right after the other
  std::string variant;  // "tutti" or "mpi"
  double us = 0;
};

inline constexpr const char* kTuttiVariant = "tutti";
inline constexpr const char* kMpiVariant = "mpi";

/// Errors: PerfError naming the file and the line.
void write_rounds(const std::string& path, const std::vector<Round>& rounds);
std::vector<Round> read_rounds(const std::string& path);

}  // namespace tutti::perf
