#include "perf/collectives/versus.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "perf/collectives/command.h"
#include "perf/collectives/error.h"
#include "perf/collectives/machine.h"
#include "perf/collectives/rounds.h"
#include "perf/collectives/versus_table.h"
#include "src/base/words.h"

namespace tutti::perf {
namespace {

/// An MPI: programs of one do not run under the launcher of another one.
struct Implementation {
  std::string_view name;
  std::string_view program;                 // beside this one
  std::vector<std::string_view> launchers;  // the first that is installed
  std::vector<std::string_view> flags;      // of the launcher
};

/// A way to run MPI.
struct Configuration {
  std::string name;
  std::vector<std::string> flags;  // of the launcher, behind those of the implementation
  Variables environment;
  const Implementation* by = nullptr;
};

const Implementation kOpenMpi = {
    "Open MPI", "tutti_perf_mpi", {"mpirun"}, {"--oversubscribe", "--bind-to", "none"}};
// Debian's mpirun is whichever of the two is preferred there.
const Implementation kMpich = {
    "MPICH", "tutti_perf_mpich", {"mpiexec.mpich", "mpiexec.hydra"}, {"-bind-to", "none"}};

const std::vector<Configuration>& known_configurations() {
  static const std::vector<Configuration> known = {
      // The default of a user who sets nothing: vader, single copy by process_vm_readv.
      {"ompi", {"--mca", "pml", "ob1"}, {}, &kOpenMpi},
      {"ompi-nocma",
       {"--mca", "pml", "ob1", "--mca", "btl_vader_single_copy_mechanism", "none"},
       {},
       &kOpenMpi},
      // OpenMPI refuses UCX without a network device unless told that any will do.
      {"ompi-ucx",
       {"--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"},
       {{"UCX_TLS", "self,shm"}},
       &kOpenMpi},
      {"mpich", {}, {}, &kMpich},
  };
  return known;
}

/// OpenMPI allocates temporary buffers in each call. With these glibc keeps what was freed, so
/// large calls do not pay for page faults again and again. (MALLOC_MMAP_THRESHOLD_ alone is capped
/// at 32 MiB.)
const Variables& tuned_malloc() {
  static const Variables tuned = {{"MALLOC_MMAP_MAX_", "0"},
                                  {"MALLOC_MMAP_THRESHOLD_", "33554432"},
                                  {"MALLOC_TRIM_THRESHOLD_", "17179869184"},
                                  {"MALLOC_TOP_PAD_", "268435456"}};
  return tuned;
}

std::vector<Configuration> configurations_of(const std::string& peer) {
  const size_t colon = peer.find(':');
  const std::string base = peer.substr(0, colon);
  const std::string suffix = colon == std::string::npos ? "" : peer.substr(colon + 1);
  for (const Configuration& known : known_configurations()) {
    if (known.name != base) continue;
    Configuration tuned = known;
    tuned.name += ":tuned";
    tuned.environment.insert(tuned.environment.end(), tuned_malloc().begin(), tuned_malloc().end());
    if (suffix == "plain") return {known};
    if (suffix == "tuned") return {tuned};
    if (suffix.empty()) return {known, tuned};
  }
  throw PerfError(
      "--vs knows ompi, ompi-nocma, ompi-ucx and mpich, each with :plain or :tuned, not '" + peer +
          "'",
      kExitUsage);
}

std::string program_path(const VersusOptions& versus, const Implementation& by) {
  if (!versus.program.empty()) return versus.program;
  const auto program = std::filesystem::path(program_folder()) / by.program;
  if (!std::filesystem::exists(program)) {
    throw PerfError("--vs needs " + program.string() + ", which is built where " +
                    std::string(by.name) + " is installed");
  }
  return program.string();
}

/// Where none is installed, the first: that it cannot be run is told by whoever tries.
std::string launcher_of(const VersusOptions& versus, const Implementation& by) {
  if (!versus.mpirun.empty()) return versus.mpirun;
  const auto found = std::find_if(by.launchers.begin(), by.launchers.end(), is_runnable);
  return std::string(found == by.launchers.end() ? by.launchers.front() : *found);
}

/// The exit code, where a file that is no result counts as a failure.
int collect_rounds(const std::string& path, std::vector<Round>& rounds) {
  try {
    const std::vector<Round> own = read_rounds(path);
    rounds.insert(rounds.end(), own.begin(), own.end());
    return kExitOk;
  } catch (const PerfError& error) {
    std::fprintf(stderr, "tutti perf: %s\n", error.what());
    return error.exit_code;
  }
}

/// Runs the comparison under one configuration. Returns its exit code; a failure has been reported.
int run_configuration(const PerfOptions& options, const std::vector<std::string>& arguments,
                      const Configuration& configuration, std::vector<Round>& rounds) {
  const TemporaryFile output;
  const Implementation& by = *configuration.by;
  std::vector<std::string> command = {launcher_of(options.versus, by)};
  command.insert(command.end(), by.flags.begin(), by.flags.end());
  command.insert(command.end(), {"-np", std::to_string(options.crew.processes)});
  command.insert(command.end(), configuration.flags.begin(), configuration.flags.end());
  command.push_back(program_path(options.versus, by));
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(),
                 {"--rounds-file", output.path(), "--configuration", configuration.name});
  Variables environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                           {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  environment.insert(environment.end(), configuration.environment.begin(),
                     configuration.environment.end());
  const std::string distance = core_distance_text(core_round_trip_ns());
  const ProcessorTime before = processor_time();
  const int result = run_command(std::move(command), environment);
  // A comparison beside other work says little; who reads the table should know.
  std::printf(
      "# ran %-18s %4.1f %% of the machine was busy with other work; between processors and back: "
      "%s before",
      configuration.name.c_str(), 100 * share_of_others(before, processor_time()),
      distance.c_str());
  std::printf(", %s after\n", core_distance_text(core_round_trip_ns()).c_str());
  if (result != 0) {
    std::fprintf(stderr, "tutti perf: %s failed (exit code %d)\n", configuration.name.c_str(),
                 result);
    return result;
  }
  return collect_rounds(output.path(), rounds);
}

}  // namespace

int versus_main(const PerfOptions& options, const std::vector<std::string>& arguments) {
  if (options.crew.threads != 1) {
    throw PerfError("--vs compares processes: leave out -t and -g", kExitUsage);
  }
  std::vector<Configuration> configurations;
  for (const std::string& peer : options.versus.peers) {
    for (Configuration& one : configurations_of(peer)) configurations.push_back(std::move(one));
  }
  check_writable(options.versus.raw_file);
  std::vector<Round> rounds;
  for (const std::string& note : options.notes) {
    std::fprintf(stderr, "tutti perf: %s\n", note.c_str());
  }
  int worst = kExitOk;
  for (const Configuration& configuration : configurations) {
    worst = std::max(worst, run_configuration(options, arguments, configuration, rounds));
  }
  print_comparisons(compare(rounds));  // first: it is there even if the disk is full
  std::fflush(stdout);
  if (!options.versus.raw_file.empty()) write_rounds(options.versus.raw_file, rounds);
  return worst;
}

int compare_main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: tutti perf compare RAW.csv...\n");
    return 2;
  }
  constexpr size_t kRoundsPerFile = 1'000'000;  // keeps rounds of different files apart
  std::vector<Round> rounds;
  try {
    for (int i = 1; i < argc; ++i) {
      for (Round& round : read_rounds(argv[i])) {
        round.round += static_cast<size_t>(i) * kRoundsPerFile;
        rounds.push_back(std::move(round));
      }
    }
  } catch (const PerfError& error) {
    std::fprintf(stderr, "tutti perf: %s\n", error.what());
    return 2;
  }
  print_comparisons(compare(rounds));
  return 0;
}

}  // namespace tutti::perf
