// The errors of the perf tools: sentences for the person at the terminal, and what the program
// returns.
#pragma once

#include <stdexcept>
#include <string>

namespace tutti::perf {

/// As nccl-tests, except for mistakes on the command line, which are 2 as in every `tutti` command.
enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,   // anything else: a rank died, a file cannot be written
  kExitUsage = 2,    // the command line
  kExitLibrary = 3,  // a call of the library failed
  kExitTimeout = 4,  // a call took longer than -T
  kExitResult = 7,   // wrong data, or an average below 0.9 * NCCL_TESTS_MIN_BW
};

struct PerfError : std::runtime_error {
  explicit PerfError(const std::string& sentence, ExitCode code = kExitFailed)
      : std::runtime_error(sentence), exit_code(code) {}
  ExitCode exit_code;
};

}  // namespace tutti::perf
