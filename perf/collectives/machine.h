// The state of the machine beside a measurement: how far apart its processors are, how busy others
// keep them, and how much memory this process holds.
#pragma once

#include <optional>
#include <string>

namespace tutti::perf {

/// Nanoseconds for a flag from one processor to another and back: the median of some hundred
/// bursts, between the first two processors that this process may use. Takes about 10 ms, and wants
/// both to itself. Nothing where there is only one.
std::optional<double> core_round_trip_ns();

/// "110 ns"
std::string core_distance_text(std::optional<double> round_trip_ns);

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

/// Bytes of this process that lie in memory, shared ones included; 0 where /proc cannot be read.
double resident_bytes();

}  // namespace tutti::perf
