// Communicators of one process, made by hand, so that a test can reach into the plans of one rank.
//
// Owns:     everything.
// Threads:  run() makes one per rank.
// Lifetime: all communicators end together.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/comm/communicator.h"
#include "tests/random/job.h"

namespace tutti::faults {

/// A change to a rank's plan before it runs; the rank is the first argument.
using Tamper = std::function<void(int rank, plan::Plan& plan)>;

struct GroupOptions {
  int ranks = 4;
  bool one_process = true;  // false: the ranks take each other for other processes of this host
  int hosts = 1;            // that they take theirs for, one after the other
  uint64_t ring_bytes = 4 << 20;
  uint64_t deadline_ns = 60'000'000'000;  // of one call of find_fault(): what takes longer hangs
  Tamper tamper;
  std::vector<select::Model> models;       // by rank; empty: as the communicator agrees
  bool measures = false;                   // TUTTI_MEASURE=start
  std::optional<select::Model> inherited;  // of the group that this one is part of
  uint64_t making_ns = 60'000'000'000;
  // Called by each rank when all cards are there; an error ends its making.
  std::function<Status(int rank)> after_meeting;
  std::function<void(int rank, const Status&)> ended;  // told of makings that failed
};

/// Runs the collectives of jobs on every rank and checks them as the random driver does, until a
/// check finds something or `calls` have been made. Returns what was found, or "".
std::string find_fault(const GroupOptions& options, uint64_t seed, int calls);

/// The same group for a test of its own: runs the body for every rank, each in a thread. The
/// communicators end together after the last one. Returns why there is no group, or "".
using Body = std::function<void(int rank, comm::Communicator& communicator)>;
std::string with_group(const GroupOptions& options, const Body& body);

}  // namespace tutti::faults
