// The levels of a group from what its ranks have said of themselves.
//
// Threads: pure.
// Errors:  none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti::group {

/// For every level, from the innermost, the node of each rank, named by its least rank.
/// `neighborhoods` has for every level a text per rank: ranks with equal ones share a node, unless
/// they are empty. Ranks that share a node of one level share one on all levels above.
std::vector<std::vector<uint32_t>> nodes_of(std::span<const std::vector<std::string>> neighborhoods,
                                            size_t ranks);

}  // namespace tutti::group
