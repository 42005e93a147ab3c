// The cluster file: a topology as JSON, for people and programs. docs/topology.md has the format.
//
//   { "tutti_topology": 1,
//     "levels": [ {"name": "zone", "latency_us": 7},
//                 {"name": "rack", "latency_us": 2, "port_GB_per_s": 50, "oversubscription": 2},
//                 {"name": "host", "latency_us": 1, "port_GB_per_s": 400} ],
//     "tree": { "children": [ {"count": 2, "children": [ {"name": "n[1-8]", "ranks": 8} ]} ] } }
//
// Threads: pure but for reading the file. Errors: kInvalidArgument "FILE:LINE: why" for what the
// file says, kSystemError where it cannot be read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/topology/topology.h"

namespace tutti::topology {

inline constexpr int kClusterFormat = 1;

/// `file`: its name in messages.
Result<Topology> parse_cluster(std::string_view text, const std::string& file);
Result<Topology> read_cluster_file(const std::string& path);

/// The shortest way to say it: equal neighbours are counted, rows of names are ranges.
/// Parsing it gives an equal topology.
std::string write_cluster(const Topology& topology);

/// Of what it says, not of how: equal files give equal numbers on all machines.
uint64_t fingerprint(const Topology& topology);

}  // namespace tutti::topology
