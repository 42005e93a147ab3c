// The hosts of `tutti perf --hosts` and --hostfile.
#pragma once

#include <string>
#include <vector>

namespace tutti::perf {

/// A host by the name that the launcher takes, and how many processes it has room for.
struct HostSlots {
  std::string name;
  int slots = 1;
};

/// "node1", "node1:4", "[2001:db8::1]:4". Errors: PerfError.
HostSlots parse_host(const std::string& text);

/// The hosts of a file as Open MPI's and MPICH's: "node1", "node1 slots=4" or "node1:4" a line, and
/// comments from '#' on. Errors: PerfError that names the line.
std::vector<HostSlots> read_hostfile(const std::string& path);

int slots_of(const std::vector<HostSlots>& hosts);

/// The hosts that the first `processes` slots are on, with as many of them as are taken. Errors:
/// PerfError where there are fewer.
std::vector<HostSlots> take_slots(const std::vector<HostSlots>& hosts, int processes);

}  // namespace tutti::perf
