// The levels of a group from what its ranks have said of themselves, and from a description of the
// network.
//
// Threads: pure.
// Errors:  divide() says which two levels contradict each other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/group/view.h"

namespace tutti::group {

/// For every level, from the innermost, the node of each rank, named by its least rank.
/// `neighborhoods` has for every level a text per rank: ranks with equal ones reach each other,
/// unless they are empty. A level unites nodes of the level inside only where all their ranks have
/// one text, so that any two ranks of a node reach each other by its level or one inside.
std::vector<std::vector<uint32_t>> nodes_of(std::span<const std::vector<std::string>> neighborhoods,
                                            size_t ranks);

/// Puts the levels that a description has of the network between those of transports, both from
/// the innermost. A described level takes over reach and transport of the network by which its
/// ranks talk, and replaces a network that has the same nodes. kInvalidUsage where neither of two
/// levels lies within the other.
Result<std::vector<Level>> divide(std::vector<Level> networks, std::vector<Level> described);

/// Takes the thinner of two uplinks of each rank's node (Level::uplinks): 0, or no number at all,
/// says nothing.
void narrow(std::vector<double>& uplinks, std::span<const double> others);

}  // namespace tutti::group
