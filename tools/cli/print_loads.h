// The bytes that cross the cut of each node of a cluster in one call of an algorithm.
//
// Threads: any. Errors: as text for stderr.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/algorithm.h"

namespace tutti::cli {

/// The ranks of a cluster file, one for each leaf, and the tree that schedules see of them.
struct ClusterRanks {
  schedule::NodeTreePointer tree;
  std::vector<std::string> names;  // of the tree's levels, as the file has them
};
Result<ClusterRanks> ranks_of(const std::string& cluster_file);

/// One line for each node: the loads that the algorithm declares, or, where it declares nothing,
/// those counted from its schedules.
Result<std::string> loads_text(const schedule::Algorithm& algorithm,
                               const schedule::Parameters& parameters, const ClusterRanks& cluster);

}  // namespace tutti::cli
