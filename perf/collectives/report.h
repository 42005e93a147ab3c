// The results of a run in two formats: nccl-tests' table with its footer and exit code, and a JSON
// file with the names of nccl-tests' files (format 3) where it has them;
// docs/perf_results.schema.json describes all of it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

/// A number of a cell: both formats are written from the same list.
struct CellField {
  const char* heading;  // of the column in the left and the right half of the table
  const char* unit;
  int width;
  int digits;        // behind the point, at most; 0: the number is whole
  const char* name;  // in the JSON file; "": it stands there among the iterations' statistics
  bool (*is_shown)(const ReportOptions& report);
  std::optional<double> (*value)(const Cell& cell);  // empty: there is none, "N/A" and null

  std::string text(const std::optional<Cell>& cell) const;
};

/// nccl-tests' four, and those that were asked for.
std::vector<CellField> cell_fields(const ReportOptions& report);

/// The number with as many digits behind the point, at most `digits`, as fit the width.
std::string fitted(double number, int width, int digits);

/// "512 B", "1.50 KB" ... "2.00 GB", as nccl-tests writes them.
std::string byte_text(double bytes);

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

  /// As the formats write them: "none" and -1 where the collective has none.
  const char* op_name(const CollectiveTraits& traits) const {
    return traits.has(Trait::kReduces) ? reduce_op_name(one.op) : "none";
  }
  int root(const CollectiveTraits& traits) const {
    return traits.has(Trait::kHasRoot) ? one.root : -1;
  }
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

/// Writes the JSON file that was asked for, if one was. Errors: PerfError.
void write_json(const PerfOptions& options, const Results& results);

/// Whether a variable of the environment may be written to a file: ours and nccl-tests', without
/// those that hold keys or ids.
bool may_be_told(const std::string& variable);

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

  const PerfOptions& options_;
  const std::vector<CellField> fields_;
  Results results_;
};

}  // namespace tutti::perf
