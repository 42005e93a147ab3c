#include "perf/collectives/options.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include <CLI/CLI.hpp>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

constexpr const char* kDefaultBytes = "32M";
constexpr const char* kDefaultStep = "1M";

/// What the parser fills before it is converted.
struct RawOptions {
  std::string min_bytes;
  std::string max_bytes;
  std::string step_bytes = kDefaultStep;
  std::vector<std::string> list;
  std::string type = "float";
  std::string op = "sum";
  std::string root = "0";
  std::string stream = "blocking";
  int average = 1;
  int blocking = 0;
  int threads = 1;
  int gpus = 1;
  int processes = 0;
  int local_register = 0;
  double timeout_s = 0;
};

void add_sweep_flags(CLI::App& app, RawOptions& raw, PerfOptions& options) {
  app.add_option("-b,--minbytes", raw.min_bytes, "smallest size; K, M, G are powers of 1024 (32M)");
  app.add_option("-e,--maxbytes", raw.max_bytes, "largest size (32M)");
  app.add_option("-i,--stepbytes", raw.step_bytes, "added from size to size (1M)");
  app.add_option("-f,--stepfactor", options.sizes.factor, "or multiplied; overrides -i");
  app.add_option("--bytes-list", raw.list, "exactly these sizes: 8,1K,4M")->delimiter(',');
  app.add_option("-o,--op", raw.op, "sum, prod, min, max, avg, all (sum)");
  app.add_option("-d,--datatype", raw.type, "float, half, bfloat16, int8 ... or all (float)");
  app.add_option("-r,--root", raw.root, "root of a broadcast; 'all' or -1 for each (0)");
}

void add_measuring_flags(CLI::App& app, RawOptions& raw, PerfOptions& options) {
  app.add_option("-n,--iters", options.iterations,
                 "timed iterations; 0: as many as take 2 ms (20)");
  app.add_option("-w,--warmup_iters", options.warmup, "iterations before them (1)");
  app.add_option("-m,--agg_iters", options.aggregate, "calls per iteration, in one group (1)")
      ->check(CLI::PositiveNumber);
  app.add_option("-N,--run_cycles", options.cycles, "repetitions of the sweep; 0: for ever (1)");
  app.add_option("-a,--average", raw.average, "time of 0: rank 0, 1: mean, 2: min, 3: max (1)")
      ->check(CLI::Range(0, 3));
  app.add_option("-c,--check", options.checks, "checked iterations; 0: none (1)");
  app.add_option("-z,--blocking", raw.blocking,
                 "1: wait and barrier after every iteration, 2: wait, 3: both after each run (0)")
      ->check(CLI::Range(0, 3));
  app.add_flag("--stepped", options.stepped, "untimed barrier before every iteration");
  app.add_flag("--percentiles", options.percentiles, "add columns p50, p99, max of the iterations");
  app.add_option("--json", options.json_file, "write configuration and results to this file");
}

void add_group_flags(CLI::App& app, RawOptions& raw, PerfOptions& options) {
  app.add_option("--ranks,--np", raw.processes, "processes to fork (2; 1 with -t or -g)")
      ->check(CLI::Range(1, kMaxRanks));
  app.add_option("-t,--nthreads", raw.threads, "threads per process (1)")
      ->check(CLI::PositiveNumber);
  app.add_option("-g,--ngpus", raw.gpus, "ranks per thread, each as a thread of its own (1)")
      ->check(CLI::PositiveNumber);
  app.add_option("--algorithm", options.communicator.algorithm, "a name of `tutti algorithms`");
  app.add_flag("--deterministic", options.communicator.deterministic, "only canonical reductions");
  app.add_option("--stream", raw.stream, "blocking (in the calling thread) or host (a queue)")
      ->check(CLI::IsMember({"blocking", "host"}));
  app.add_flag("--registered", options.registered, "buffers from tuttiMemAlloc, registered");
  app.add_option("-R,--local_register", raw.local_register, "1 or 2: as --registered (0)");
  app.add_option("-T,--timeout", raw.timeout_s, "seconds after which a call fails (0: none)");
}

void add_versus_flags(CLI::App& app, PerfOptions& options) {
  VersusOptions& versus = options.versus;
  app.add_option("--vs", versus.peers,
                 "compare, interleaved: ompi, ompi-nocma, ompi-ucx; each runs with plain and with "
                 "tuned malloc, or only one as ompi:plain, ompi:tuned")
      ->delimiter(',');
  app.add_option("--rounds", versus.rounds, "rounds of --vs (9)")->check(CLI::PositiveNumber);
  app.add_option("--round-ms", versus.round_ms,
                 "least duration of a round of --vs; -n is not used (2)")
      ->check(CLI::PositiveNumber);
  app.add_option("--raw", versus.raw_file, "write every round of --vs to this CSV file");
  app.add_option("--mpirun", versus.mpirun, "the launcher of --vs (mpirun)");
  app.add_option("--mpi-program", versus.program, "(tutti_perf_mpi beside this program)");
  app.add_option("--rounds-file", versus.rounds_file)->group("");
  app.add_option("--configuration", versus.configuration)->group("");
}

SizeOptions convert_sizes(const RawOptions& raw, double factor) {
  SizeOptions sizes;
  sizes.factor = factor;
  sizes.step_bytes = parse_bytes(raw.step_bytes);
  const std::string& from = raw.min_bytes.empty() ? raw.max_bytes : raw.min_bytes;
  const std::string& to = raw.max_bytes.empty() ? raw.min_bytes : raw.max_bytes;
  sizes.min_bytes = parse_bytes(from.empty() ? kDefaultBytes : from);
  sizes.max_bytes = parse_bytes(to.empty() ? kDefaultBytes : to);
  if (sizes.min_bytes > sizes.max_bytes) throw PerfError("-b is greater than -e");
  const bool grows = sizes.factor > 1 ? sizes.min_bytes > 0 : sizes.step_bytes > 0;
  if (sizes.min_bytes < sizes.max_bytes && !grows) throw PerfError("the sizes do not grow");
  for (const std::string& text : raw.list) sizes.list.push_back(parse_bytes(text));
  return sizes;
}

CrewShape convert_crew(const RawOptions& raw) {
  CrewShape crew;
  crew.threads = raw.threads * raw.gpus;
  crew.processes = raw.processes > 0 ? raw.processes : (crew.threads > 1 ? 1 : 2);
  if (crew.ranks() > kMaxRanks) {
    throw PerfError("at most " + std::to_string(kMaxRanks) + " ranks");
  }
  return crew;
}

int convert_root(const std::string& text, int ranks) {
  if (text == "all" || text == "-1") return -1;
  char* end = nullptr;
  const long root = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || root < 0 || root >= ranks) {
    throw PerfError("root '" + text + "' is not a rank: there are " + std::to_string(ranks));
  }
  return static_cast<int>(root);
}

void convert(const RawOptions& raw, PerfOptions& options) {
  const CollectiveTraits& traits = traits_of(options.collective);
  options.sizes = convert_sizes(raw, options.sizes.factor);
  options.types = parse_data_types(raw.type);
  options.ops = traits.reduces ? parse_reduce_ops(raw.op) : std::vector{tuttiMax};
  options.average = static_cast<Average>(raw.average);
  options.blocking = static_cast<Blocking>(raw.blocking);
  options.crew = convert_crew(raw);
  options.root = convert_root(raw.root, options.crew.ranks());
  options.communicator.host_stream = raw.stream == "host";
  options.communicator.timeout_ns = static_cast<uint64_t>(raw.timeout_s * 1e9);
  options.registered = options.registered || raw.local_register != 0;
  if (options.collective == Collective::kBarrier) options.sizes.list = {0};
}

}  // namespace

size_t parse_bytes(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  double scale = 0;
  if (unit.empty() || unit == "B") scale = 1;
  if (unit == "K" || unit == "k") scale = 1024;
  if (unit == "M" || unit == "m") scale = 1024.0 * 1024;
  if (unit == "G" || unit == "g") scale = 1024.0 * 1024 * 1024;
  if (end == text.c_str() || scale == 0 || !(number >= 0) || number * scale > 0x1p60) {
    throw PerfError("'" + text + "' is not a size such as 8, 64K, 1M or 1.5G");
  }
  return static_cast<size_t>(number * scale);
}

std::vector<size_t> PerfOptions::byte_sizes() const {
  if (!sizes.list.empty()) return sizes.list;
  std::vector<size_t> all;
  for (size_t bytes = sizes.min_bytes; bytes <= sizes.max_bytes;) {
    all.push_back(bytes);
    if (bytes == sizes.max_bytes) break;
    const auto scaled = static_cast<size_t>(static_cast<double>(bytes) * sizes.factor);
    bytes = sizes.factor > 1 ? std::max(scaled, bytes + 1) : bytes + sizes.step_bytes;
  }
  return all;
}

size_t PerfOptions::largest_bytes() const {
  const std::vector<size_t> all = byte_sizes();
  return *std::max_element(all.begin(), all.end());
}

std::optional<PerfOptions> parse_options(const CollectiveTraits& collective, int argc,
                                         const char* const* argv, int* exit_code) {
  PerfOptions options;
  RawOptions raw;
  options.collective = collective.id;
  CLI::App app(std::string("Measures ") + collective.name + "; flags as in nccl-tests.",
               std::string("tutti perf ") + collective.name);
  add_sweep_flags(app, raw, options);
  add_measuring_flags(app, raw, options);
  add_group_flags(app, raw, options);
  add_versus_flags(app, options);
  try {
    app.parse(argc, argv);
    convert(raw, options);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    *exit_code = code == 0 ? 0 : 2;
    return std::nullopt;
  } catch (const PerfError& error) {
    std::cerr << "tutti perf: " << error.what() << "\n";
    *exit_code = 2;
    return std::nullopt;
  }
  return options;
}

}  // namespace tutti::perf
