// The algorithm that the library says it would run, for two columns of the table.
#pragma once

#include <string>
#include <string_view>

#include "perf/collectives/communicator.h"

namespace tutti::perf {

struct Choice {
  std::string algorithm;   // "pairs" for what is made of sends and receives
  std::string transports;  // "shm", "shm+tcp": those by which rank 0 reaches the others
};

/// From tuttiExplain, so for ordinary buffers and out of place. Not collective.
Choice choice_of(const Communicator& communicator, const Operation& operation);

/// Reads the line of tuttiExplain's text that tells: "... ranks: ring, staged, 4 slices, over shm".
/// A missing field is "?".
Choice parse_choice(std::string_view explanation);

}  // namespace tutti::perf
