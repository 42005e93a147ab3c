// nccl-tests' table, footer and exit code.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "perf/collectives/columns.h"
#include "perf/collectives/error.h"
#include "perf/collectives/measure.h"
#include "perf/collectives/options.h"

namespace tutti::perf {

/// One rank, for the list above the table. Copied between processes as it is.
struct Participant {
  int process = 0;
  int color = 0;
  int device = 0;  // nccl-tests gives one to each rank of a host, in their order
  char host[200] = {};
};

/// Collective: every rank, in order.
std::vector<Participant> all_participants(const RankContext& context, const Subgroup& group);

struct Line {
  Case one;
  size_t size_bytes;
  size_t count;
  size_t elements;  // what the shapes of its ranks are made for
  size_t cycle;
  Cell out_of_place;
  std::optional<Cell> in_place;  // empty: the collective has no in-place form
  std::optional<Choice> choice;  // with --verbose
  std::string measured_at;       // "2026-11-21 14:03:59"
};

/// The results of a whole run, for the table and the JSON file.
struct Results {
  std::vector<Participant> ranks;
  std::vector<Line> lines;
  std::optional<MemoryUse> memory;
  size_t warm_up_calls = 0;  // before the sweep
  std::string started_at;
  std::string ended_at;

  size_t wrong_elements() const;
  double average_bus_bandwidth() const;
};

/// In words of the report.
const char* stream_text(const PerfOptions& options);

/// The local time, as nccl-tests writes it.
std::string time_now();

/// NCCL_TESTS_MIN_BW, GB/s; empty where it is not set.
std::optional<double> least_bandwidth();

/// Prints as the results come. One rank speaks.
class Report {
 public:
  Report(const PerfOptions& options, std::vector<Participant> ranks);

  void header() const;
  /// Prints the line; says on stderr where its first wrong element is.
  void add(const Line& line);
  /// Before header(): which device each rank is on.
  void set_devices(const std::vector<int>& numbers);
  void set_memory(const MemoryUse& memory) { results_.memory = memory; }
  void set_warm_up_calls(size_t calls) { results_.warm_up_calls = calls; }
  /// Prints the footer and writes the JSON file. Returns the exit code.
  ExitCode finish();

 private:
  void print_parameters() const;
  void print_ranks() const;
  void print_columns() const;
  void print_traffic(const Line& line) const;
  void print_wrong(const Line& line, const Cell& cell, const char* placement) const;
  std::string cell_text(const std::optional<Cell>& cell) const;

  const PerfOptions& options_;
  const std::vector<CellColumn> columns_;
  Results results_;
};

}  // namespace tutti::perf
