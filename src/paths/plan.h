// Which spine each flow, or each piece of one, goes over: by a hash as switches do it, or planned.
//
// Threads: pure; equal inputs give equal plans on every machine. Errors: kInvalidArgument for
// flows of leaves that are not there, kUnsupported where no living path joins two leaves.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/paths/fabric.h"
#include "src/paths/split.h"

namespace tutti::paths {

/// Equal-cost multipath: each flow goes whole over the spine that a hash of its ends and its source
/// port picks, dead links left out.
Result<std::vector<Placed>> place_by_hash(const Fabric& fabric, const std::vector<Flow>& flows,
                                          uint64_t seed);

/// The expected load of the fullest of `uplinks` up-links when `flows` equal flows are hashed onto
/// them, in flows: exact, by the generating function of the fullest bin. 1 is ideal for as many
/// flows as links.
double expected_most_load(uint32_t flows, uint32_t uplinks);

struct PlanOptions {
  bool split = false;  // flows may be cut into pieces (minimal_split); else they stay whole
  SplitLimits limits;
  PlacementRules rules;
};

/// Spreads flows over all spines. On a fabric whose links are alike, equal flows are balanced as
/// evenly as whole pieces can be, at every link up and down (equitable_colours); otherwise each
/// piece goes where the busier of its two links ends first, longest first, and pieces leave the
/// busiest link as long as that helps.
Result<std::vector<Placed>> plan_paths(const Fabric& fabric, const std::vector<Flow>& flows,
                                       const PlanOptions& options = {});

/// The same pieces with bytes in proportion to the rate that each has been seen to move at, in
/// bytes per nanosecond: pieces of one flow then end together. kInvalidArgument for a rate that is
/// negative, or a flow none of whose pieces moves.
Result<std::vector<Placed>> rebalance(const std::vector<Placed>& placed,
                                      const std::vector<double>& rates);

}  // namespace tutti::paths
