// Counters of the process (hooks.h).
#pragma once

#include <cstdint>

#include "tests/software_device/hooks.h"

namespace softdev {

void count(uint64_t SoftdevStatistics::*counter, int64_t change);
SoftdevStatistics statistics();
/// A line of all counters on the error output.
void print_statistics();

}  // namespace softdev
