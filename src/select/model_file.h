// A model as JSON: what is measured is kept so, and people may write one (docs/tuning.md).
//
//   { "tutti_model": 1,
//     "hosts": "2-5b1f0c6a52c2a9c1",
//     "ranks": {"copy_ns_per_byte": 0.11},
//     "levels": [ {"name": "network", "latency_ns": 31000, "ns_per_byte": 0.9} ],
//     "crowds": [ {"ranks": 2, "cores": 2, "step_ns": 310, "one_way_ns": 90,
//                  "copies": [ {"bytes": 65536, "staged_ns": 2500, "single_ns": 6200} ]} ],
//     "devices": {"terms": [ {"name": "link_us_per_mb", "value": 2.63, "source": "measured"} ]},
//     "nccl": [ {"collective": "all_reduce", "ranks": 8, "calls": [ {"bytes": 8192, "ns": 9e3} ]} ]
//   }
//
// Fields that are left out are the library's own. Threads: pure. Errors: kInvalidArgument
// "FILE:LINE: why".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/select/model.h"

namespace tutti::select {

struct ModelFile {
  std::string hosts;  // the set that it is of; empty: of any
  Model model;
};

Result<ModelFile> parse_model(std::string_view text, const std::string& file);
/// Parsing it gives an equal model on all machines.
std::string write_model(const ModelFile& file);

/// Tells models apart: equal for equal ones, on all machines.
uint32_t version_of(const Model& model);

/// Names a set of hosts, in any order.
std::string name_of_hosts(std::vector<std::string> hosts);

}  // namespace tutti::select
