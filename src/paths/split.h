// Into how many pieces equal flows must be split so that every up-link carries the same.
//
// A source with r equal flows and s up-links balances them exactly when each flow is split into
// s / gcd(r, s) pieces and each up-link takes r / gcd(r, s) of all pieces; fewer pieces cannot do
// it
// ("Challenging the Need for Packet Spraying", arXiv 2407.00550).
//
// Threads: pure. Units: bytes. Errors: kInvalidArgument names the number that makes no sense.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"

namespace tutti::paths {

struct SplitLimits {
  uint64_t least_piece = 1;      // bytes; a smaller piece costs more than balance gains
  uint64_t most_pieces = 65536;  // of one source: the connections that it can afford
};

struct Split {
  uint32_t pieces = 1;   // of each flow
  double most_load = 0;  // of an up-link, in flows; r / s where the split is exact
  bool exact = false;    // every up-link carries the same
};

/// `flows` equal flows of `bytes` each from one source with `uplinks` equal up-links. Where the
/// limits forbid the exact split flows stay whole, and `most_load` says what that costs.
Result<Split> minimal_split(uint32_t flows, uint32_t uplinks, uint64_t bytes,
                            const SplitLimits& limits = {});

/// A piece of a flow on an up-link.
struct LinkShare {
  uint32_t flow = 0;
  uint32_t uplink = 0;
  double bytes = 0;
};

/// For flows of any sizes and up-links of any capacities: every up-link carries bytes in proportion
/// to its capacity, by at most flows + up-links - 1 pieces. An up-link of capacity 0 is dead and
/// carries nothing.
Result<std::vector<LinkShare>> proportional_split(const std::vector<double>& bytes,
                                                  const std::vector<double>& capacities);

}  // namespace tutti::paths
