#include "perf/collectives/report.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <utility>

namespace tutti::perf {
namespace {

constexpr int kAlgorithmWidth = 20;
constexpr int kTransportWidth = 10;
constexpr int kTimestampWidth = 19;

/// Right-aligned, two blanks before it.
std::string padded(const std::string& text, int width) {
  const auto room = static_cast<size_t>(width);
  const size_t blanks = text.size() < room ? room - text.size() : 0;
  return "  " + std::string(blanks, ' ') + text;
}

/// The five columns on the left. `begin` is what a line starts with, as wide as "# " + 10.
std::string key_text(const std::string& begin, const std::array<std::string, 4>& rest) {
  return begin + padded(rest[0], 12) + padded(rest[1], 8) + padded(rest[2], 6) + padded(rest[3], 6);
}

std::string tail_text(const ReportOptions& report, const std::array<std::string, 3>& columns) {
  std::string text;
  if (report.verbose) {
    text += padded(columns[0], kAlgorithmWidth) + padded(columns[1], kTransportWidth);
  }
  if (report.timestamps) text += padded(columns[2], kTimestampWidth);
  return text;
}

std::string step_text(const SizeOptions& sizes) {
  if (sizes.factor <= 1) return std::to_string(sizes.step_bytes) + "(bytes)";
  char text[32];
  std::snprintf(text, sizeof text, "%g(factor)", sizes.factor);
  return text;
}

std::string right_aligned(const std::string& text, int width) {
  return padded(text, width).substr(2);
}

/// nccl-tests' line about -z; empty: it has none.
const char* blocking_text(const PerfOptions& options) {
  switch (options.blocking) {
    case Blocking::kWaitAndBarrier:
      return "# Blocking Enabled: wait for completion and barrier after each collective\n";
    case Blocking::kWait:
      return "# Blocking Enabled: wait for completion after each collective (no barrier)\n";
    case Blocking::kNo:
      return "";
  }
  return "";
}

/// How timed_loop() runs.
const char* loop_text(const PerfOptions& options) {
  if (options.stepped) return "stepped";
  if (options.blocking == Blocking::kWait) return "a wait after each iteration";
  if (options.blocking != Blocking::kNo) return "a wait and a barrier after each iteration";
  const bool waits = options.report.samples() && options.communicator.host_stream;
  return waits ? "single calls, each waited for" : "free-running";
}

const char* buffers_text(const PerfOptions& options) {
  if (options.on_device) return "device";
  return options.registered ? "registered" : "ordinary";
}

}  // namespace

const char* stream_text(const PerfOptions& options) {
  if (options.on_device) return "cuda";
  return options.communicator.host_stream ? "host" : "blocking";
}

std::vector<Participant> all_participants(const RankContext& context, const Subgroup& group) {
  Participant own;
  own.color = group.color;
  own.process = getpid();
  gethostname(own.host, sizeof own.host - 1);
  std::vector<Participant> all = context.board.exchange(context.rank, own);
  std::map<std::string, int> ranks_of_host;
  for (Participant& one : all) one.device = ranks_of_host[one.host]++;
  return all;
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

std::optional<double> least_bandwidth() {
  const char* text = std::getenv("NCCL_TESTS_MIN_BW");
  if (text == nullptr) return std::nullopt;
  return std::atof(text);
}

std::string byte_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB"};
  int unit = 0;
  while (unit < 3 && std::fabs(bytes) >= 1024) {
    bytes /= 1024;
    ++unit;
  }
  const int digits = std::fabs(bytes) < 10 ? 2 : std::fabs(bytes) < 100 ? 1 : 0;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s", digits, bytes, kUnits[unit]);
  return text;
}

size_t Results::wrong_elements() const {
  size_t total = 0;
  for (const Line& line : lines) {
    total += line.out_of_place.wrong_elements();
    if (line.in_place) total += line.in_place->wrong_elements();
  }
  return total;
}

double Results::average_bus_bandwidth() const {
  double sum = 0;
  size_t cells = 0;
  for (const Line& line : lines) {
    sum += line.out_of_place.bus_bandwidth + (line.in_place ? line.in_place->bus_bandwidth : 0);
    cells += line.in_place ? 2 : 1;
  }
  return cells == 0 ? 0 : sum / static_cast<double>(cells);
}

Report::Report(const PerfOptions& options, std::vector<Participant> ranks)
    : options_(options), fields_(cell_fields(options.report)) {
  results_.ranks = std::move(ranks);
  results_.started_at = time_now();
}

void Report::header() const {
  for (const std::string& note : options_.notes) {
    std::fprintf(stderr, "tutti perf: %s\n", note.c_str());
  }
  print_parameters();
  print_ranks();
  print_columns();
  std::fflush(stdout);
}

/// nccl-tests' lines of parameters, and one with ours.
void Report::print_parameters() const {
  int version = 0;
  tuttiGetVersion(&version);
  const CollectiveTraits& traits = traits_of(options_.collective);
  const SizeOptions& sizes = options_.sizes;
  std::printf("# tutti perf %s, library version %d\n", traits.name, version);
  std::printf("# Collective test starting: %s\n", traits.program);
  std::printf(
      "# nThread %d nGpus %d minBytes %zu maxBytes %zu step: %s warmup iters: %zu iters: %zu ",
      options_.threads, options_.gpus, sizes.min_bytes, sizes.max_bytes, step_text(sizes).c_str(),
      options_.warmup, options_.iterations);
  std::printf("agg iters: %zu validation: %zu graph: 0 unalign: %zu\n%s#\n", options_.aggregate,
              options_.checks, options_.unaligned_elements, blocking_text(options_));
  const CommunicatorOptions& communicator = options_.communicator;
  std::printf("# %s%s, %s stream, %s buffers, algorithm %s%s\n#\n", loop_text(options_),
              options_.fresh ? ", fresh input" : "", stream_text(options_), buffers_text(options_),
              communicator.algorithm.empty() ? "chosen" : communicator.algorithm.c_str(),
              communicator.deterministic ? ", deterministic" : "");
}

void Report::set_devices(const std::vector<int>& numbers) {
  for (size_t rank = 0; rank < numbers.size(); ++rank) results_.ranks[rank].device = numbers[rank];
}

void Report::print_ranks() const {
  std::printf("# Using devices\n");
  const std::vector<Participant>& ranks = results_.ranks;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::printf("#  Rank %2zu Group %2d Pid %6d on %10s device %2d [%s memory]\n", rank,
                ranks[rank].color, ranks[rank].process, ranks[rank].host, ranks[rank].device,
                options_.on_device ? "cuda" : "host");
  }
}

void Report::print_columns() const {
  std::string names;
  std::string units;
  for (const CellField& field : fields_) {
    names += padded(field.heading, field.width);
    units += padded(field.unit, field.width);
  }
  const auto half = [&](const char* title) {
    std::string text = "           " + std::string(title);
    text.resize(names.size(), ' ');
    return text;
  };
  const ReportOptions& report = options_.report;
  const auto print = [](std::string text) {
    text.resize(text.find_last_not_of(' ') + 1);
    std::printf("%s\n", text.c_str());
  };
  const std::string blank(12, ' ');
  print("#");
  print("#" + key_text(blank, {}).substr(1) + half("out-of-place") + half("in-place"));
  print(key_text("# " + right_aligned("size", 10), {"count", "type", "redop", "root"}) + names +
        names + tail_text(report, {"algorithm", "transports", "timestamp"}));
  print(key_text("# " + right_aligned("(B)", 10), {"(elements)", "", "", ""}) + units + units +
        tail_text(report, {"", "", "%Y-%m-%d %H:%M:%S"}));
}

void Report::add(const Line& line) {
  const CollectiveTraits& traits = traits_of(options_.collective);
  const auto cell_text = [&](const std::optional<Cell>& cell) {
    std::string text;
    for (const CellField& field : fields_) text += padded(field.text(cell), field.width);
    return text;
  };
  const std::string key = key_text(right_aligned(std::to_string(line.size_bytes), 12),
                                   {std::to_string(line.count), data_type(line.one.type).name,
                                    line.op_name(traits), std::to_string(line.root(traits))});
  const Choice choice = line.choice.value_or(Choice{});
  const std::string text =
      key + cell_text(line.out_of_place) + cell_text(line.in_place) +
      tail_text(options_.report, {choice.algorithm, choice.transports, line.measured_at});
  if (options_.traffic_summary) print_traffic(line);
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  print_wrong(line, line.out_of_place, "out of place");
  if (line.in_place) print_wrong(line, *line.in_place, "in place");
  // Cycles for ever have no footer and no file: what is kept for them would only grow. They end
  // when nobody can read them.
  if (options_.cycles > 0) {
    results_.lines.push_back(line);
  } else if (std::ferror(stdout) != 0) {
    throw PerfError("with -N 0 there are only lines, and they cannot be written");
  }
}

/// nccl-tests' lines on what every rank of an all_to_all_v moves.
void Report::print_traffic(const Line& line) const {
  const size_t bytes = data_type(line.one.type).bytes;
  const Traffic traffic = options_.traffic.of_elements(bytes);
  const int color = results_.ranks.front().color;
  const auto ranks =
      static_cast<int>(std::count_if(results_.ranks.begin(), results_.ranks.end(),
                                     [&](const Participant& rank) { return rank.color == color; }));
  const double us = line.out_of_place.us;
  std::printf("# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=%s nranks=%d ",
              traffic.matrix() != nullptr ? "matrix" : "generated", ranks);
  if (traffic.matrix() != nullptr) {
    std::printf("matrix_dim=%d", traffic.matrix()->ranks);
  } else {
    std::printf("total_bytes=%zu spread=%.3f", line.elements * bytes, traffic.spread());
  }
  std::printf(" time_usec=%.2f\n", us);
  for (int rank = 0; rank < ranks; ++rank) {
    const Shape shape = shape_of(options_.collective, line.elements, {rank, ranks, 0}, traffic);
    const size_t most = std::max(shape.send_count, shape.recv_count) * bytes;
    const double bandwidth = static_cast<double>(most) / std::max(us, 1e-3) / 1e3;
    std::printf("#   rank=%d send_bytes=%zu recv_bytes=%zu alg_bw=%.2f bus_bw=%.2f\n", rank,
                shape.send_count * bytes, shape.recv_count * bytes, bandwidth,
                bandwidth * bus_factor(options_.collective, ranks));
  }
}

void Report::print_wrong(const Line& line, const Cell& cell, const char* placement) const {
  if (!cell.wrong) return;
  const CollectiveTraits& traits = traits_of(options_.collective);
  std::fprintf(stderr, "tutti perf: wrong data: %s of %zu %s, %s: %s\n", traits.name, line.count,
               data_type(line.one.type).name, placement, sentence_of(*cell.wrong).c_str());
}

ExitCode Report::finish() {
  results_.ended_at = time_now();
  const std::optional<double> least = least_bandwidth();
  const double average = results_.average_bus_bandwidth();
  const size_t wrong = results_.wrong_elements();
  const bool too_slow = least && average < 0.9 * *least;
  std::printf("# Out of bounds values : %zu %s\n", wrong, wrong == 0 ? "OK" : "FAILED");
  std::printf("# Avg bus bandwidth    : %g %s\n", average,
              !least     ? ""
              : too_slow ? "FAILED"
                         : "OK");
  if (results_.memory) {
    const MemoryUse& memory = *results_.memory;
    std::printf("# Memory usage         : Initialization %s | User-Allocated %s | Collective %s",
                byte_text(memory.initialization).c_str(), byte_text(memory.buffers).c_str(),
                byte_text(memory.collectives).c_str());
    const double total = memory.initialization + memory.buffers + memory.collectives;
    std::printf(" | Total %s\n", byte_text(total).c_str());
  }
  std::printf("#\n# Collective test concluded: %s\n", traits_of(options_.collective).program);
  std::fflush(stdout);
  write_json(options_, results_);
  return wrong > 0 || too_slow ? kExitResult : kExitOk;
}

}  // namespace tutti::perf
