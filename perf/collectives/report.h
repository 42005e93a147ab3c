// nccl-tests' table, footer and exit code; the same results as JSON.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "perf/collectives/measure.h"
#include "perf/collectives/options.h"

namespace tutti::perf {

struct Line {
  Case one;
  size_t size_bytes;
  size_t count;
  Cell out_of_place;
  std::optional<Cell> in_place;  // empty: the collective has no in-place form
};

/// What rank 0 prints.
class Report {
 public:
  explicit Report(const PerfOptions& options) : options_(options) {}

  /// `pids[rank]`.
  void header(const std::vector<double>& pids) const;
  void add(const Line& line);
  /// Prints the footer and writes the JSON file. Returns the exit code: 1 if data was wrong, or if
  /// the average is below 0.9 * NCCL_TESTS_MIN_BW.
  int finish() const;

 private:
  void print_parameters() const;
  void print_columns() const;
  void print_line(const Line& line) const;
  void print_cell(const Cell& cell) const;
  size_t wrong() const;
  double average_bus_bandwidth() const;
  void write_json() const;

  const PerfOptions& options_;
  std::vector<Line> lines_;
};

}  // namespace tutti::perf
