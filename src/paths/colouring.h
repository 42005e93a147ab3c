// Colours for the edges of a bipartite multigraph, such that at every node each colour appears
// nearly equally often: floor or ceil of the node's degree over the number of colours.
//
// Up-links balanced by each source alone say nothing of the links down to the targets. With edges
// for flows, nodes for source and target leaves and a colour for each spine, both are balanced.
// Nodes are cut into parts of at most `colours` edges; what is left has an edge colouring in which
// no part has a colour twice (König), found by alternating paths.
//
// Threads: pure. Cost: O(edges x nodes). Errors: kInvalidArgument for no colours or a node that
// is not there.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"

namespace tutti::paths {

struct FlowEdge {
  uint32_t left = 0;
  uint32_t right = 0;
};

/// The colour of each edge, in [0, colours).
Result<std::vector<uint32_t>> equitable_colours(const std::vector<FlowEdge>& edges, uint32_t left,
                                                uint32_t right, uint32_t colours);

}  // namespace tutti::paths
