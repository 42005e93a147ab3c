// Which connections a group keeps from the start so that news of one rank reaches all others.
//
// The ranks of a host know each other's deaths. The first ranks of the hosts form a ring in which
// each is connected with those at distance 1, 2, 4 ...: news that everybody tells on comes to all
// of n hosts in log n steps. It comes whoever is dead too: the graph is connected, so of the parts
// into which the dead divide the living, each has a member that lost a connection itself.
//
// Pure functions of what every rank knows alike.
#pragma once

#include <span>
#include <vector>

namespace tutti::diagnosis {

/// The ranks that `rank` is connected with from the start, in rising order; symmetric. Empty for
/// all but the first ranks of hosts, and where there is one host. `first_ranks` has that of each
/// host, rising (GroupView::host_first_ranks).
std::vector<int> overlay_peers(std::span<const int> first_ranks, int rank);

}  // namespace tutti::diagnosis
