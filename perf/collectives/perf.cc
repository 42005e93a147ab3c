#include "perf/collectives/perf.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "perf/collectives/command.h"
#include "perf/collectives/crew.h"
#include "perf/collectives/cuda_device.h"
#include "perf/collectives/error.h"
#include "perf/collectives/flags.h"
#include "perf/collectives/host_agent.h"
#include "perf/collectives/hosts.h"
#include "perf/collectives/launched.h"
#include "perf/collectives/measure.h"
#include "perf/collectives/nccl_baseline.h"
#include "perf/collectives/options.h"
#include "perf/collectives/plot.h"
#include "perf/collectives/progress.h"
#include "perf/collectives/report.h"
#include "perf/collectives/subgroup.h"
#include "perf/collectives/versus.h"

namespace tutti::perf {
namespace {

/// The roots of a sweep: one, or each.
std::vector<int> roots_of(const PerfOptions& options, int ranks) {
  const bool all = options.root < 0 && traits_of(options.collective).has(Trait::kHasRoot);
  std::vector<int> roots;
  if (!all) return {std::max(options.root, 0)};
  for (int root = 0; root < ranks; ++root) roots.push_back(root);
  return roots;
}

/// Types, operations and roots outside, sizes inside, as nccl-tests.
std::vector<Case> cases_of(const PerfOptions& options, int ranks) {
  std::vector<Case> cases;
  for (const tuttiDataType_t type : options.types) {
    for (const tuttiRedOp_t op : options.ops) {
      if (!is_defined(data_type(type), op)) continue;
      for (const int root : roots_of(options, ranks)) {
        for (const size_t bytes : options.byte_sizes()) cases.push_back({bytes, type, op, root});
      }
    }
  }
  return cases;
}

size_t lines_of(const PerfOptions& options, const std::vector<Case>& cases) {
  return options.cycles * cases.size();
}

std::string words_for(const Case& one, const char* placement) {
  return std::to_string(one.bytes) + " bytes " + data_type(one.type).name + ", " + placement;
}

/// One rank's part of a run; rank 0 speaks for all.
class Sweep {
 public:
  Sweep(const RankContext& context, const PerfOptions& options)
      : context_(context),
        group_(subgroup_of(context, options.crew.threads)),
        options_(options),
        speaks_(context.rank == 0),
        cases_(cases_of(options, smallest_group())),
        report_(options, all_participants(context, group_)),
        progress_(lines_of(options, cases_), speaks_),
        measurement_(context, group_, options) {}

  int run() {
    if (options_.on_device) {
      report_.set_devices(context_.board.exchange(context_.rank, measurement_.device_number()));
    }
    if (speaks_) report_.header();
    report_.set_warm_up_calls(measurement_.warm_up(cases_));
    for (size_t cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) {
      for (const Case& one : cases_) run_case(one, cycle);
    }
    if (options_.report.memory) report_.set_memory(measurement_.memory());
    return conclude();
  }

 private:
  /// Collective. Every group has the same cases, so that nobody waits for another one.
  int smallest_group() const {
    int smallest = group_.ranks;
    for (const int ranks : context_.board.exchange(context_.rank, group_.ranks)) {
      smallest = std::min(smallest, ranks);
    }
    check_group(options_, smallest);
    return smallest;
  }

  /// Collective: every rank returns what rank 0 has concluded, so that every process that a
  /// launcher started says it; and none before rank 0 is done, for launchers end the others then.
  ExitCode conclude() {
    const int own = speaks_ ? status_of_output(write_results()) : kExitOk;
    return static_cast<ExitCode>(context_.board.exchange(context_.rank, own)[0]);
  }

  ExitCode write_results() {
    try {
      const ExitCode code = report_.finish();
      const ReportOptions& report = options_.report;
      if (!report.plot_file.empty()) plot_results(report.json_file, report.plot_file);
      return code;
    } catch (const PerfError& error) {
      std::fprintf(stderr, "tutti perf: %s\n", error.what());
      return error.exit_code;
    }
  }

  void run_case(const Case& one, size_t cycle) {
    ++number_;
    const PreparedCase out_of_place(options_, group_, one, false);
    progress_.show(number_, words_for(one, "out of place"));
    Line line{one,
              out_of_place.size_bytes(),
              out_of_place.shape.count,
              out_of_place.elements,
              cycle,
              {},
              {},
              {},
              {}};
    line.out_of_place = measurement_.run(out_of_place);
    if (traits_of(options_.collective).has(Trait::kInPlace)) {
      progress_.show(number_, words_for(one, "in place"));
      line.in_place = measurement_.run({options_, group_, one, true});
    }
    if (options_.report.verbose) line.choice = measurement_.choice(out_of_place);
    line.measured_at = time_now();
    progress_.clear();
    if (speaks_) report_.add(line);
  }

  const RankContext context_;
  const Subgroup group_;
  const PerfOptions& options_;
  const bool speaks_;
  const std::vector<Case> cases_;
  Report report_;
  Progress progress_;
  Measurement measurement_;
  size_t number_ = 0;
};

int list_collectives(std::FILE* file) {
  std::fprintf(file,
               "usage: tutti perf COLLECTIVE [flags]      tutti perf COLLECTIVE --help\n"
               "       tutti perf compare RAW.csv...      the tables of --vs again\n"
               "       tutti perf flags                   all flags, as docs/perf_flags.md\n\n"
               "collectives:");
  for (const CollectiveTraits& traits : all_collectives()) std::fprintf(file, " %s", traits.name);
  std::fprintf(file, "\n");
  return file == stdout ? kExitOk : kExitUsage;
}

void check_launched(const PerfOptions& options, const bootstrap::Launch& launch) {
  if (!options.versus.peers.empty()) {
    throw PerfError("--vs starts its own ranks: run it without " + launch.how, kExitUsage);
  }
  if (!options.hosts.hosts.empty()) {
    throw PerfError("--hosts starts its own ranks: run it without " + launch.how, kExitUsage);
  }
}

/// Collective: whether rank 0 can write and draw what it will have to. All learn it, so that no
/// process of a launcher waits for one that has ended.
ExitCode look_at_files(const RankContext& context, const ReportOptions& report) {
  ExitCode own = kExitOk;
  try {
    if (context.rank == 0) {
      check_writable(report.json_file);
      check_writable(report.plot_file);
      if (!report.plot_file.empty()) check_plotter();
    }
  } catch (const PerfError& error) {
    std::fprintf(stderr, "tutti perf: %s\n", error.what());
    own = error.exit_code;
  }
  return context.board.exchange(context.rank, own)[0];
}

/// Looks first for what the end of a long run will need.
int measure(PerfOptions options, const std::optional<bootstrap::Launch>& launch) {
  ReportOptions& report = options.report;
  if (launch) check_launched(options, *launch);
  const bool plots = !report.plot_file.empty() && (!launch || launch->rank == 0);
  std::optional<TemporaryFile> own_file;
  if (plots && report.json_file.empty()) report.json_file = own_file.emplace().path();
  if (options.on_device) options.communicator.open_device = open_cuda_device;
  if (options.report.beside_nccl) options.open_baseline = open_nccl_baseline;
  const RankBody body = [&](const RankContext& context) -> int {
    const ExitCode code = look_at_files(context, report);
    return code != kExitOk ? code : Sweep(context, options).run();
  };
  return run_ranks(options.crew, launch, body);
}

}  // namespace

int launched_main(const std::vector<std::string>& arguments) {
  std::vector<char*> words;
  std::vector<std::string> copy = arguments;
  for (std::string& word : copy) words.push_back(word.data());
  if (!words.empty()) return collective_main(static_cast<int>(words.size()), words.data());
  return kExitUsage;
}

int collective_main(int argc, char** argv) {
  const CollectiveTraits* traits = find_collective(argv[0]);
  if (traits == nullptr) {
    std::fprintf(stderr, "tutti perf: there is no collective '%s'\n", argv[0]);
    return list_collectives(stderr);
  }
  try {
    const std::optional<bootstrap::Launch> launch = this_launch();
    const std::vector<std::string> arguments = arguments_of(argc, argv, launch);
    std::vector<const char*> words;
    for (const std::string& argument : arguments) words.push_back(argument.c_str());
    int exit_code = 0;
    const auto options =
        parse_options(*traits, static_cast<int>(words.size()), words.data(), &exit_code);
    if (!options) return exit_code;
    if (!launch && !options->versus.peers.empty()) return versus_main(*options, arguments);
    if (!launch && !options->hosts.hosts.empty()) return hosts_main(*options, arguments);
    return measure(*options, launch);
  } catch (const PerfError& error) {
    std::fprintf(stderr, "tutti perf: %s\n", error.what());
    return error.exit_code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tutti perf: %s\n", error.what());
    return kExitFailed;
  }
}

int perf_main(int argc, char** argv) {
  if (argc < 2) return list_collectives(stderr);
  const std::string wanted = argv[1];
  if (wanted == "--help" || wanted == "-h") return list_collectives(stdout);
  if (wanted == "compare") return compare_main(argc - 1, argv + 1);
  if (wanted == "agent") return agent_main();
  if (wanted == "flags") {
    std::fputs(flags_as_markdown().c_str(), stdout);
    return kExitOk;
  }
  return collective_main(argc - 1, argv + 1);
}

}  // namespace tutti::perf
