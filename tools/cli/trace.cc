#include "tools/cli/trace.h"

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/words.h"
#include "src/trace/reader.h"
#include "tools/cli/arguments.h"

namespace tutti::cli {
namespace {

constexpr char kUsage[] =
    "usage: tutti trace dump [--pid PID] [--json]\n"
    "Prints the last calls of every communicator of a process, or of all processes of this user,\n"
    "and what a call that waits for long has exchanged with each rank (docs/flight_recorder.md).\n"
    "The process may run, wait or be stopped; it is not touched. Text times are seconds before "
    "now,\n"
    "JSON times nanoseconds of CLOCK_MONOTONIC.\n";

struct TraceOptions {
  std::optional<pid_t> process;
  bool json = false;
};

bool read_options(int argc, char** argv, TraceOptions& options) {
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      options.json = true;
    } else if (std::strcmp(argv[i], "--pid") == 0 && i + 1 < argc) {
      options.process = parse_integer<pid_t>(argv[++i]);
      if (!options.process || *options.process <= 0) return false;
    } else {
      return false;
    }
  }
  return true;
}

int dump(const TraceOptions& options) {
  const std::vector<pid_t> processes =
      options.process ? std::vector<pid_t>{*options.process} : trace::find_processes();
  std::vector<trace::Snapshot> all;
  bool refused = false;
  for (const pid_t process : processes) {
    Result<trace::Recorders> found = trace::read_process(process);
    if (!found.ok()) {
      std::fprintf(stderr, "tutti trace: %s\n", std::string(found.status().message()).c_str());
      if (options.process) return 1;
      continue;  // it has ended meanwhile
    }
    for (const Status& status : found.value().refused) {
      std::fprintf(stderr, "tutti trace: %s\n", std::string(status.message()).c_str());
      refused = true;
    }
    for (trace::Snapshot& snapshot : found.value().snapshots) all.push_back(std::move(snapshot));
  }
  if (options.json) {
    std::fputs(trace::to_json(all).c_str(), stdout);
  } else {
    for (const trace::Snapshot& snapshot : all) {
      std::fputs(trace::to_text(snapshot, monotonic_ns()).c_str(), stdout);
    }
  }
  if (all.empty() && !refused) {
    std::fprintf(stderr, "tutti trace: no flight recorder found (is TUTTI_TRACE_RECORDS 0?)\n");
  }
  return all.empty() ? 1 : 0;
}

}  // namespace

int trace_main(int argc, char** argv) {
  TraceOptions options;
  const bool help = argc > 1 && asks_for_help(argv[1]);
  if (help || argc < 2 || std::strcmp(argv[1], "dump") != 0 || !read_options(argc, argv, options)) {
    std::fputs(kUsage, help ? stdout : stderr);
    return help ? 0 : 2;
  }
  return dump(options);
}

}  // namespace tutti::cli
