// Traffic between nodes (Zeppelin): messages that use several network cards, and a remapping of
// tokens that moves as few bytes between nodes as possible.
//
// A message between nodes is cut into x pieces; each goes to a proxy in its node, over that proxy's
// card to the proxy's counterpart, and from there to the target. The first piece needs no detour.
// Ranks that share a card are one proxy, not several.
// The rule which ranks are proxies, and the remap's order, are reconstructions; times follow the
// paper.
//
// Units:   elements; bytes and nanoseconds in routed_time(). Node = rank / ranks_per_node.
// Errors:  throws Error: more proxies than cards with ranks in a node, a place without a known
// card,
//          parcels of ranks that are not there, sums that differ.
// Threads: values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/cost.h"
#include "tutti/runtime/reshard.h"

namespace tutti::runtime {

struct NodeShape {
  int ranks_per_node = 1;
  int nics_per_node = 1;
  /// Which card each place of a node uses, one entry a place. Empty: neighbours share, as many of
  /// them as there are ranks for a card (card = place * nics_per_node / ranks_per_node).
  std::vector<int> card_of = {};
};

/// The same resharding in steps, each run by an Exchange of its own: `direct` from source to target
/// buffers; then dispatch from the source to relay buffers, cross between relay buffers of
/// different nodes, combine from these to the target. Relay buffers have the steps' target sizes.
struct RoutedResharding {
  Resharding direct;
  Resharding dispatch;
  Resharding cross;
  Resharding combine;
};
/// Proxies have different cards: the first piece leaves by the source's own, the others by the
/// next ones in turn, each over one of that card's ranks.
TUTTI_RUNTIME_API RoutedResharding routed(const Resharding& resharding, const NodeShape& nodes,
                                          int proxies);

/// The time of a message of n bytes over x proxies, for bandwidths intra and nic:
/// n (x - 1) / x / intra + n / (x nic) + n (x - 1) / x / intra.
TUTTI_RUNTIME_API Nanoseconds routed_time(Bytes message, int proxies, const LinkClass& nic,
                                          const LinkClass& intra);

/// Rank r has have[r] tokens, contiguous in rank order, and should have want[r]. Surplus fills
/// deficits of its own node first; what crosses nodes is the sum of positive node surpluses, the
/// least there can be. A rank's kept tokens come first in its new buffer.
TUTTI_RUNTIME_API Resharding remap(std::span<const int64_t> have, std::span<const int64_t> want,
                                   int ranks_per_node);

}  // namespace tutti::runtime
