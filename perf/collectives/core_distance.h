// How far apart the processors are: what a cache line costs that moves between them.
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

}  // namespace tutti::perf
