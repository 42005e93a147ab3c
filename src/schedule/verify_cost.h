// Counts what a call costs: longest chain of messages, messages, bytes and scratch.
#pragma once

#include <span>

#include "src/base/status.h"
#include "src/schedule/verify.h"
#include "src/schedule/verify_match.h"

namespace tutti::schedule::verifier {

Result<Cost> count_cost(const Program& program, const Matching& matching,
                        std::span<const StepRef> order);

/// Of every level and every node of `tree`.
Result<LevelLoads> count_loads(const Program& program, const Matching& matching,
                               std::span<const StepRef> order, const NodeTree& tree);

}  // namespace tutti::schedule::verifier
