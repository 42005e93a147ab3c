// How blocks from every rank to every rank travel inwards over a tree, in few messages.
//
// The levels exchange from the outermost inwards. A rank sends one message to each sibling of its
// child, with all that it holds for the ranks of that sibling: of its own blocks, and of those that
// came in from outside the node. One rank of the sibling receives it, and passes on what is not its
// own in the exchanges further in. A sibling's ranks take the messages of its node in turn, so each
// receives its share of them, within one; where siblings are alike, from the ranks of its own
// place.
//
// The blocks that are on their way from an *origin* to the ranks of a node are held by one rank of
// that node, the origin's *carrier* there.
//
// Threads: pure. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/patterns/siblings.h"
#include "src/schedule/algorithm.h"

namespace tutti::algorithms::patterns {

/// The rank of another child that receives the message of the rank at `sender`.
int receiver_of(const Siblings& siblings, Place sender, int child);

/// For each level the carrier of every origin in that level's node of `rank`, before its children
/// exchange.
std::vector<std::vector<int>> carriers_of(const schedule::NodeTree& tree, int rank);

/// The part of one rank in the exchange of a level.
struct Passage {
  uint64_t sent = 0;      // blocks
  uint64_t received = 0;  // blocks
  uint64_t kept = 0;      // those of `received` that are for others
  uint32_t messages_sent = 0;
  uint32_t messages_received = 0;
  uint32_t depth = 0;  // messages in the longest chain that ends here
};
/// [level][rank]. O(ranks * children * levels).
std::vector<std::vector<Passage>> passages_of(const schedule::NodeTree& tree);

}  // namespace tutti::algorithms::patterns
