// Traffic between nodes (Zeppelin): messages that use several network cards, and a remapping of
// tokens that moves as few bytes between nodes as possible.
//
// A message between nodes is cut into x pieces; each goes to a proxy in its node, over that proxy's
// card to the proxy's counterpart, and from there to the target. The first piece needs no detour.
// Ranks that share a card are one proxy, not several.
// Sequences belong into zones by their lengths. The rule which ranks are proxies, the bounds of
// zones and the remap's order are reconstructions; times follow the paper.
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

#include "tutti/runtime/assign.h"
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

/// Where a sequence is computed: on one rank, by the ring of a node, or by a ring over all nodes.
/// A step of a ring of G ranks hides its keys and values if
///   pair * (s / G)^2 >= keys_and_values * (s / G) / bandwidth,
/// so longer sequences do, and shorter ones belong into a smaller ring (the paper's crossing of
/// computing, which is quadratic, and transfer, which is linear; the rule is a reconstruction).
enum class Zone { kLocal, kNode, kBetween };
struct ZoneCost {
  double pair_ns = 0;        // computing of a pair of tokens
  Bytes keys_and_values{0};  // of a token
  LinkClass intra, nic;      // links within a node, and between nodes
  int ranks_per_node = 1;
  int nodes = 1;
};
/// The shortest sequences of the node's and of the outer zone; kNoLimit where there is no such
/// ring. A sequence with room for fewer tokens than it has on its ranks goes further out.
struct ZoneBounds {
  int64_t node = 0;
  int64_t between = 0;
};
TUTTI_RUNTIME_API ZoneBounds zone_bounds(const ZoneCost& cost);
TUTTI_RUNTIME_API Zone zone_of(int64_t length, const ZoneBounds& bounds);
/// The sequences in the order in which ranks take them: those between nodes first, whose transfers
/// take longest, then those within nodes, then local ones; longest first in each.
TUTTI_RUNTIME_API std::vector<int> zone_order(std::span<const int64_t> lengths,
                                              const ZoneBounds& bounds);

/// Rank r has have[r] tokens, contiguous in rank order, and should have want[r]. Surplus fills
/// deficits of its own node first; what crosses nodes is the sum of positive node surpluses, the
/// least there can be. A rank's kept tokens come first in its new buffer.
TUTTI_RUNTIME_API Resharding remap(std::span<const int64_t> have, std::span<const int64_t> want,
                                   int ranks_per_node);

}  // namespace tutti::runtime
