#include "perf/collectives/plot.h"

#include <filesystem>
#include <vector>

#include "perf/collectives/command.h"
#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

/// Beside the installed program and in the build folder alike: ../share/tutti.
std::string script() {
  const auto folder = std::filesystem::path(program_folder()).parent_path();
  const auto path = folder / "share" / "tutti" / "plot_results.py";
  if (!std::filesystem::exists(path)) throw PerfError("--plot needs " + path.string());
  return path.string();
}

/// The script says itself what went wrong.
void run_script(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"python3", script()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (run_command(std::move(command), {}) != 0) throw PerfError("--plot: no picture was drawn");
}

}  // namespace

void check_plotter() { run_script({"--check"}); }

void plot_results(const std::string& json_file, const std::string& picture_file) {
  run_script({json_file, "--output", picture_file});
}

}  // namespace tutti::perf
