// The processors that a process may use: its affinity mask (taskset, cpusets of containers) and its
// quota (cpu.max of its control groups). The list of processors that are online shows neither.
//
// Threads: any; the mask is the calling thread's.
// Errors:  a text of a peer that is none is no processors at all.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

struct Processors {
  std::vector<uint32_t> numbers;  // rising, as the host counts them
  uint32_t quota_percent = 0;     // of one processor, for the whole control group; 0: no quota
  std::string group;              // the control group that has it, as its host knows it

  bool operator==(const Processors&) const = default;
};

Processors own_processors();
/// Into `found`, by what /proc/self/cgroup says and where control groups are mounted.
void find_quota(std::istream& groups, const std::string& mounts, Processors& found);

/// "0-3,8 150 17:4242", and back.
std::string to_text(const Processors& processors);
std::optional<Processors> read_processors(std::string_view text);

/// How many processors these processes of one host have together, at least 1: ranks that are bound
/// to a processor each have one each, and those that share one share it. A quota counts once for
/// all that have it.
int count_together(std::span<const Processors> processes);

}  // namespace tutti
