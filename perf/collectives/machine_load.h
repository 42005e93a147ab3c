// How much of the machine went to others while something was measured.
#pragma once

namespace tutti::perf {

/// Processor seconds since the machine or this process began.
struct ProcessorTime {
  double total = 0;  // of all processors
  double busy = 0;   // working for anybody, or taken away by the hypervisor
  double own = 0;    // working for this process and the children it has waited for, with theirs
};

/// All zero where /proc/stat cannot be read.
ProcessorTime processor_time();

/// The part of the machine, 0 to 1, that worked for others between the two.
double share_of_others(const ProcessorTime& before, const ProcessorTime& after);

}  // namespace tutti::perf
