// The one error of the perf tools: a sentence for the person at the terminal.
#pragma once

#include <stdexcept>

namespace tutti::perf {

struct PerfError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tutti::perf
