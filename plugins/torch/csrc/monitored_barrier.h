// A barrier by the store, which can say who did not come.
//
// Errors: CallError names the ranks that are missing. Threads: no state. Units: milliseconds.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

#include "operations.h"

namespace tutti_torch {

struct MonitoredBarrier {
  std::string key;  // of the store: fresh, equal on all ranks
  std::chrono::milliseconds timeout{0};
  bool all = false;  // names all ranks that are missing, after the whole timeout; else the first
  std::string name;  // of the group
};

/// Every rank tells rank 0 that it is here and waits for its answer.
void run(const MonitoredBarrier& barrier, c10d::Store& store, Group group);

}  // namespace tutti_torch
