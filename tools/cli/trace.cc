#include "tools/cli/trace.h"

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/words.h"
#include "src/trace/record_file.h"
#include "tools/cli/arguments.h"
#include "tools/cli/trace_analyse.h"

namespace tutti::cli {
namespace {

constexpr char kUsage[] =
    "usage: tutti trace dump [--pid PID | FILE...] [--json]\n"
    "       tutti trace analyse [--pids | FILE...] [--html FILE] [--brief] [--hang SECONDS]\n"
    "Prints the last calls of every communicator of a process, or of all processes of this user,\n"
    "and what a call that waits for long has exchanged with each rank (docs/flight_recorder.md);\n"
    "of files what communicators have left there that failed (TUTTI_TRACE_FILE).\n"
    "The process may run, wait or be stopped; it is not touched. Text times are seconds before "
    "now,\n"
    "JSON times nanoseconds of CLOCK_MONOTONIC.\n"
    "'analyse' joins the recorders of all ranks, also of PyTorch, and says what is wrong\n"
    "(docs/health.md); its exit status is 1 if something is.\n";

struct TraceOptions {
  std::optional<pid_t> process;
  std::vector<std::string> files;
  bool json = false;
};

bool read_options(int argc, char** argv, TraceOptions& options) {
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      options.json = true;
    } else if (std::strcmp(argv[i], "--pid") == 0 && i + 1 < argc) {
      options.process = parse_integer<pid_t>(argv[++i]);
      if (!options.process || *options.process <= 0) return false;
    } else if (argv[i][0] != '-') {
      options.files.emplace_back(argv[i]);
    } else {
      return false;
    }
  }
  return options.files.empty() || !options.process;
}

/// The snapshots that were found, and whether any could not be read.
struct Found {
  std::vector<trace::Snapshot> snapshots;
  bool refused = false;

  /// False: there is nothing.
  bool take(Result<trace::Recorders> found) {
    const auto complain = [](const Status& status) {
      std::fprintf(stderr, "tutti trace: %s\n", std::string(status.message()).c_str());
    };
    if (!found.ok()) {
      complain(found.status());
      return false;
    }
    for (const Status& status : found.value().refused) {
      complain(status);
      refused = true;
    }
    for (trace::Snapshot& snapshot : found.value().snapshots) {
      snapshots.push_back(std::move(snapshot));
    }
    return true;
  }
};

int print(const Found& found, bool json) {
  if (json) {
    std::fputs(trace::to_json(found.snapshots).c_str(), stdout);
  } else {
    for (const trace::Snapshot& snapshot : found.snapshots) {
      std::fputs(trace::to_text(snapshot, monotonic_ns()).c_str(), stdout);
    }
  }
  return found.snapshots.empty() ? 1 : 0;
}

int dump_files(const TraceOptions& options) {
  Found found;
  bool all = true;
  for (const std::string& file : options.files) {
    all = found.take(trace::read_record_file(file)) && all;
  }
  const int status = print(found, options.json);
  return all && !found.refused ? status : 1;
}

int dump_processes(const TraceOptions& options) {
  const std::vector<pid_t> processes =
      options.process ? std::vector<pid_t>{*options.process} : trace::find_processes();
  Found found;
  for (const pid_t process : processes) {
    // Of all processes one may have ended meanwhile.
    if (!found.take(trace::read_process(process)) && options.process) return 1;
  }
  if (found.snapshots.empty() && !found.refused) {
    std::fprintf(stderr, "tutti trace: no flight recorder found (is TUTTI_TRACE_RECORDS 0?)\n");
  }
  return print(found, options.json);
}

}  // namespace

int trace_main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "analyse") == 0) return analyse_main(argc - 1, argv + 1);
  TraceOptions options;
  const bool help = argc > 1 && asks_for_help(argv[1]);
  if (help || argc < 2 || std::strcmp(argv[1], "dump") != 0 || !read_options(argc, argv, options)) {
    std::fputs(kUsage, help ? stdout : stderr);
    return help ? 0 : 2;
  }
  return options.files.empty() ? dump_processes(options) : dump_files(options);
}

}  // namespace tutti::cli
