// A host from the inside: its processors in a tree of cores, caches, memory and packages.
//
// Readers (sysfs.h, hwloc.h) say which sets of processors there are; make_host_tree() makes a
// topology of any such sets, whoever says so. Its leaves are processors.
//
// Threads: values. Errors: kSystemError where nothing is known of processors. Units: bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/topology/topology.h"

namespace tutti::topology {

/// One core, cache, NUMA node or package.
struct HostObject {
  std::string level;                 // "core", "L1", "L2", "L3", "die", "numa", "package"
  std::vector<uint32_t> processors;  // rising, as the system counts them
  uint64_t bytes = 0;                // of a cache, or memory; 0: nobody said
};

struct HostFacts {
  std::string found_by;              // "hwloc 2.9.0", "sysfs"
  std::vector<uint32_t> processors;  // in any order
  std::vector<HostObject> objects;
  std::vector<std::string> notes;  // of what could not be found, and what it lacks
};

struct HostTree {
  Topology tree;
  std::vector<uint32_t> processors;          // by leaf, as the system counts them
  std::vector<std::vector<uint64_t>> bytes;  // [level][node]
  std::string found_by;
  std::vector<std::string> notes;
};

/// `host`: its name. Levels are ordered by the sizes of their sets; one whose sets cut through
/// those of another is left out, with a note.
Result<HostTree> make_host_tree(HostFacts facts, const std::string& host);

/// This host: what hwloc says where it is there, else what the files of the system say.
Result<HostTree> find_host_tree();

/// As lstopo prints it: one line for a node and those inside that hold the same processors.
std::string print_host_tree(const HostTree& host);

}  // namespace tutti::topology
