#include "perf/collectives/report.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

/// nccl-tests' seven columns for a time, with digits enough for a call below a microsecond.
std::string time_text(double us) {
  char text[32];
  const int digits = us >= 10000 ? 0 : us >= 100 ? 1 : us >= 10 ? 2 : 3;
  std::snprintf(text, sizeof text, "%7.*f", digits, us);
  return text;
}

const char* op_text(const PerfOptions& options, const Case& one) {
  return traits_of(options.collective).reduces ? reduce_op_name(one.op) : "none";
}

int root_text(const PerfOptions& options, const Case& one) {
  return traits_of(options.collective).has_root ? one.root : -1;
}

nlohmann::json to_json(const PerfOptions& options, const Cell& cell) {
  nlohmann::json json = {{"time", cell.us},
                         {"alg_bw", cell.algorithm_bandwidth},
                         {"bus_bw", cell.bus_bandwidth},
                         {"iterations", cell.iterations}};
  if (cell.wrong) {
    json["nwrong"] = *cell.wrong;
  } else {
    json["nwrong"] = "N/A";
  }
  if (options.percentiles) {
    json["p50"] = cell.p50_us;
    json["p99"] = cell.p99_us;
    json["max"] = cell.max_us;
  }
  return json;
}

nlohmann::json to_json(const PerfOptions& options, const Line& line) {
  nlohmann::json json = {{"size", line.size_bytes},
                         {"count", line.count},
                         {"type", data_type(line.one.type).name},
                         {"redop", op_text(options, line.one)},
                         {"root", root_text(options, line.one)},
                         {"out_of_place", to_json(options, line.out_of_place)}};
  if (line.in_place) json["in_place"] = to_json(options, *line.in_place);
  return json;
}

}  // namespace

void Report::header(const std::vector<double>& pids) const {
  print_parameters();
  const std::string host = host_name();
  std::printf("# Using devices\n");
  for (size_t rank = 0; rank < pids.size(); ++rank) {
    std::printf("#  Rank %2zu Group  0 Pid %6d on %10s device %2zu [host memory]\n", rank,
                static_cast<int>(pids[rank]), host.c_str(),
                rank % static_cast<size_t>(options_.crew.threads));
  }
  print_columns();
  std::fflush(stdout);
}

/// nccl-tests' line of parameters, and one with ours.
void Report::print_parameters() const {
  int version = 0;
  tuttiGetVersion(&version);
  const CollectiveTraits& traits = traits_of(options_.collective);
  const SizeOptions& sizes = options_.sizes;
  const bool multiplies = sizes.factor > 1;
  std::printf("# tutti perf %s, library version %d\n", traits.name, version);
  std::printf("# Collective test starting: %s\n", traits.program);
  std::printf("# nThread %d nGpus 1 minBytes %zu maxBytes %zu step: %g(%s) warmup iters: %zu ",
              options_.crew.threads, sizes.min_bytes, sizes.max_bytes,
              multiplies ? sizes.factor : static_cast<double>(sizes.step_bytes),
              multiplies ? "factor" : "bytes", options_.warmup);
  std::printf("iters: %zu agg iters: %zu validate: %zu graph: 0\n#\n", options_.iterations,
              options_.aggregate, options_.checks);
  const CommunicatorOptions& communicator = options_.communicator;
  std::printf("# %s, %s stream, %s buffers, algorithm %s%s\n#\n",
              options_.stepped ? "stepped" : "free-running",
              communicator.host_stream ? "host" : "blocking",
              options_.registered ? "registered" : "ordinary",
              communicator.algorithm.empty() ? "chosen" : communicator.algorithm.c_str(),
              communicator.deterministic ? ", deterministic" : "");
}

void Report::print_columns() const {
  const std::string none;
  const bool more = options_.percentiles;
  // As wide as print_cell.
  const std::string names =
      "     time   algbw   busbw  #wrong" + (more ? "     p50     p99     max" : none);
  const std::string units =
      "     (us)  (GB/s)  (GB/s)        " + (more ? "    (us)    (us)    (us)" : none);
  const int width = static_cast<int>(names.size());
  std::printf("#\n# %10s  %12s  %8s  %6s  %6s%-*s%s\n", "", "", "", "", "", width,
              "           out-of-place", "           in-place");
  std::printf("# %10s  %12s  %8s  %6s  %6s%s%s\n", "size", "count", "type", "redop", "root",
              names.c_str(), names.c_str());
  std::printf("# %10s  %12s  %8s  %6s  %6s%s%s\n", "(B)", "(elements)", "", "", "", units.c_str(),
              units.c_str());
}

void Report::add(const Line& line) {
  lines_.push_back(line);
  print_line(line);
}

void Report::print_line(const Line& line) const {
  std::printf("%12zu  %12zu  %8s  %6s  %6d", line.size_bytes, line.count,
              data_type(line.one.type).name, op_text(options_, line.one),
              root_text(options_, line.one));
  print_cell(line.out_of_place);
  if (line.in_place) {
    print_cell(*line.in_place);
  } else {
    std::printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
  }
  std::printf("\n");
  std::fflush(stdout);
}

void Report::print_cell(const Cell& cell) const {
  const std::string wrong = cell.wrong ? std::to_string(*cell.wrong) : "N/A";
  std::printf("  %s  %6.2f  %6.2f  %6s", time_text(cell.us).c_str(), cell.algorithm_bandwidth,
              cell.bus_bandwidth, wrong.c_str());
  if (!options_.percentiles) return;
  std::printf(" %s %s %s", time_text(cell.p50_us).c_str(), time_text(cell.p99_us).c_str(),
              time_text(cell.max_us).c_str());
}

size_t Report::wrong() const {
  size_t total = 0;
  for (const Line& line : lines_) {
    total += line.out_of_place.wrong.value_or(0);
    if (line.in_place) total += line.in_place->wrong.value_or(0);
  }
  return total;
}

double Report::average_bus_bandwidth() const {
  double sum = 0;
  size_t cells = 0;
  for (const Line& line : lines_) {
    sum += line.out_of_place.bus_bandwidth + (line.in_place ? line.in_place->bus_bandwidth : 0);
    cells += line.in_place ? 2 : 1;
  }
  return cells == 0 ? 0 : sum / static_cast<double>(cells);
}

int Report::finish() const {
  const char* minimum = std::getenv("NCCL_TESTS_MIN_BW");
  const double average = average_bus_bandwidth();
  const bool too_slow = minimum != nullptr && average < 0.9 * std::atof(minimum);
  const char* verdict = minimum == nullptr ? "" : too_slow ? "FAILED" : "OK";
  std::printf("# Out of bounds values : %zu %s\n", wrong(), wrong() == 0 ? "OK" : "FAILED");
  std::printf("# Avg bus bandwidth    : %g %s\n#\n", average, verdict);
  std::printf("# Collective test concluded: %s\n", traits_of(options_.collective).program);
  write_json();
  return wrong() > 0 || too_slow ? 1 : 0;
}

void Report::write_json() const {
  if (options_.json_file.empty()) return;
  const CommunicatorOptions& communicator = options_.communicator;
  nlohmann::json json;
  json["config"] = {{"collective", traits_of(options_.collective).name},
                    {"ranks", options_.crew.ranks()},
                    {"processes", options_.crew.processes},
                    {"threads", options_.crew.threads},
                    {"iterations", options_.iterations},
                    {"warmup_iterations", options_.warmup},
                    {"average", static_cast<int>(options_.average)},
                    {"stepped", options_.stepped},
                    {"registered", options_.registered},
                    {"stream", communicator.host_stream ? "host" : "blocking"},
                    {"algorithm", communicator.algorithm},
                    {"deterministic", communicator.deterministic}};
  json["results"] = nlohmann::json::array();
  for (const Line& line : lines_) json["results"].push_back(to_json(options_, line));
  json["average_bus_bandwidth"] = average_bus_bandwidth();
  json["out_of_bounds"] = wrong();
  std::ofstream file(options_.json_file);
  file << json.dump(2) << "\n";
  if (!file.flush()) throw PerfError("cannot write " + options_.json_file);
}

}  // namespace tutti::perf
