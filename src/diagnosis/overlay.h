// The connections that a group keeps from the start, so that the notice of a loss reaches all
// ranks.
//
// The ranks of a host notice each other's deaths. The first ranks of the hosts form a ring, in
// which each is connected with those at distance 1, 2, 4 ...: a notice that every rank passes on
// reaches all n hosts in log n steps. It reaches them even if several ranks are dead: the graph is
// connected, so if the dead divide the living into parts, each part has a rank that lost a
// connection itself.
//
// Pure functions of values that are equal on all ranks.
#pragma once

#include <span>
#include <vector>

namespace tutti::diagnosis {

/// The ranks that `rank` is connected with from the start, in rising order; symmetric. Empty if
/// `rank` is not the first rank of its host, or if there is one host. `first_ranks` has the first
/// rank of each host, rising (GroupView::host_first_ranks).
std::vector<int> overlay_peers(std::span<const int> first_ranks, int rank);

}  // namespace tutti::diagnosis
