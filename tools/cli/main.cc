// `tutti`: one program for everything that is not a library call.
#include <cstdio>
#include <string>
#include <string_view>

#include "perf/collectives/collective.h"
#include "perf/collectives/command.h"
#include "perf/collectives/perf.h"
#include "tools/cli/algorithms.h"
#include "tools/cli/arguments.h"
#include "tools/cli/doctor.h"
#include "tools/cli/env.h"
#include "tools/cli/explain.h"
#include "tools/cli/health.h"
#include "tools/cli/plan.h"
#include "tools/cli/print.h"
#include "tools/cli/run.h"
#include "tools/cli/sim.h"
#include "tools/cli/spares.h"
#include "tools/cli/sweep.h"
#include "tools/cli/timeline.h"
#include "tools/cli/topo.h"
#include "tools/cli/trace.h"
#include "tools/cli/tune.h"
#include "tools/cli/verify.h"
#include "tools/cli/version.h"

namespace tutti::cli {
namespace {

struct Command {
  const char* name;
  int (*run)(int argc, char** argv);  // argv[0] is the command's name
  const char* summary;
};

constexpr Command kCommands[] = {
    {"perf", perf::perf_main, "measure a collective, also against MPI"},
    {"verify", verify_main, "prove the schedules and plans of the algorithms"},
    {"explain", explain_main, "what a call would run here, and why"},
    {"trace", trace_main,
     "the last calls of processes: tutti trace dump; and what is wrong: analyse"},
    {"algorithms", algorithms_main, "what is registered"},
    {"print", print_main, "an algorithm's schedule as text, and its plans"},
    {"doctor", doctor_main, "whether this host is fit for jobs of several hosts, and what to do"},
    {"env", env_main, "every setting, its value and its effect"},
    {"timeline", timeline_main, "what a way to train would run, when and with what memory"},
    {"topo", topo_main, "what this host or a cluster is made of"},
    {"tune", tune_main, "what the pieces of calls on devices cost here, as a model"},
    {"sim", sim_main, "a collective on a cluster that is not here, simulated"},
    {"plan", plan_main, "where which parallelism of a training job goes on a cluster"},
    {"health", health_main, "watch the communicators of this host; counters for Prometheus"},
    {"sweep", sweep_main, "which hosts are slow at communicating, measured by pairs"},
    {"spares", spares_main, "how many spares a large job should have"},
    {"run", run_main, "start a program of NCCL on Tutti"},
    {"version", version_main, "version, and what this machine offers"},
};

int print_usage(std::FILE* file) {
  std::fprintf(file, "usage: tutti COMMAND ...      tutti COMMAND --help\n\n");
  for (const Command& command : kCommands) {
    std::fprintf(file, "  %-12s %s\n", command.name, command.summary);
  }
  return file == stdout ? 0 : 2;
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

int run(int argc, char** argv) {
  // Installed under the names of nccl-tests too: all_reduce_perf, alltoall_perf ...
  const std::string program(base_name(argc > 0 ? argv[0] : ""));
  if (program.ends_with("_perf") && perf::find_collective(program) != nullptr) {
    std::string name = program;
    argv[0] = name.data();
    return perf::collective_main(argc, argv);
  }
  if (argc < 2) return print_usage(stderr);
  const std::string_view wanted = argv[1];
  if (asks_for_help(wanted) || wanted == "help") return print_usage(stdout);
  if (wanted == "--version") return version_main(argc - 1, argv + 1);
  for (const Command& command : kCommands) {
    if (wanted == command.name) return command.run(argc - 1, argv + 1);
  }
  std::fprintf(stderr, "tutti: there is no command '%s'\n", argv[1]);
  return print_usage(stderr);
}

}  // namespace
}  // namespace tutti::cli

int main(int argc, char** argv) {
  return tutti::perf::status_of_output(tutti::cli::run(argc, argv));
}
