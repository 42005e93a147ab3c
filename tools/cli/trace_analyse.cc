#include "tools/cli/trace_analyse.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "perf/collectives/error.h"
#include "perf/command_line.h"
#include "src/base/clock.h"
#include "src/health/dump.h"
#include "src/health/report.h"
#include "src/trace/reader.h"

namespace tutti::cli {
namespace {

struct AnalyseOptions {
  std::vector<std::string> files;
  bool pids = false;
  bool brief = false;
  std::string html;
  uint64_t hang_s = 10;
};

void complain(const Status& status) {
  std::fprintf(stderr, "tutti trace: %s\n", std::string(status.message()).c_str());
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw perf::PerfError("cannot open '" + path + "'");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// All that can be read; false in `whole` where something could not.
std::vector<health::RankRecorder> of_files(const std::vector<std::string>& files, bool& whole) {
  std::vector<health::RankRecorder> all;
  for (const std::string& file : files) {
    Result<health::ReadDumps> read = health::read_dump(content_of(file), file);
    if (!read.ok()) {
      complain(read.status());
      whole = false;
      continue;
    }
    for (const Status& status : read.value().refused) complain(status);
    whole = whole && read.value().refused.empty();
    for (health::RankRecorder& one : read.value().recorders) all.push_back(std::move(one));
  }
  return all;
}

std::vector<health::RankRecorder> of_processes() {
  std::vector<health::RankRecorder> all;
  for (const pid_t process : trace::find_processes()) {
    Result<trace::Recorders> found = trace::read_process(process);
    if (!found.ok()) continue;  // it has ended meanwhile
    for (trace::Snapshot& one : found.value().snapshots) {
      all.push_back({std::move(one), monotonic_ns()});
    }
  }
  return all;
}

int run(const AnalyseOptions& options) {
  if (options.pids == !options.files.empty()) {
    throw perf::PerfError("give files, or --pids for all processes of this user on this host",
                          perf::kExitUsage);
  }
  bool whole = true;
  const std::vector<health::RankRecorder> recorders =
      options.pids ? of_processes() : of_files(options.files, whole);
  if (recorders.empty()) throw perf::PerfError("no flight recorder was found");
  health::HealthRules rules;
  rules.hang_ns = options.hang_s * 1'000'000'000;
  const std::vector<health::CommunicatorHealth> all = health::analyse(recorders, rules);
  std::fputs(health::text_report(all, !options.brief).c_str(), stdout);
  if (!options.html.empty()) {
    std::ofstream page(options.html, std::ios::binary);
    page << health::html_report(all);
    page.close();
    if (!page) throw perf::PerfError(options.html + " could not be written");
  }
  for (const health::CommunicatorHealth& one : all) whole = whole && one.verdicts.empty();
  return whole ? 0 : 1;
}

}  // namespace

int analyse_main(int argc, char** argv) {
  try {
    AnalyseOptions options;
    perf::CommandLine line("what is wrong with a job, by the flight recorders of all its ranks",
                           "tutti trace analyse");
    line.add(
        {"files", "FILE...",
         "what communicators that failed have left, 'tutti trace dump --json' of each host, or "
         "PyTorch's dumps"},
        [&](const std::string& file) { options.files.push_back(file); });
    line.add({"--pids", "", "the processes of this user on this host, in place of files"},
             options.pids);
    line.add({"--html", "FILE", "write a page with the matrix of delays"}, options.html);
    line.add({"--brief", "", "one line for each verdict, without evidence"}, options.brief);
    line.add({"--hang", "SECONDS", "a call that has run for so long hangs", "10"}, options.hang_s,
             0, 1'000'000);
    if (const auto end = line.parse(argc, argv)) return *end;
    return run(options);
  } catch (const perf::PerfError& error) {
    std::fprintf(stderr, "tutti trace: %s\n", error.what());
    return error.exit_code;
  }
}

}  // namespace tutti::cli
