// Computes what every rank holds, message by message, and compares the outputs with the
// collective's meaning.
#pragma once

#include <span>

#include "src/base/status.h"
#include "src/schedule/verify.h"
#include "src/schedule/verify_match.h"

namespace tutti::schedule::verifier {

/// Refuses, or sets canonical, agrees, forwards and needs_equal_counts.
Status check_values(const Program& program, const Matching& matching,
                    std::span<const StepRef> order, Verdict& verdict);

/// A barrier has no values: every rank's end must come after every rank's start, through messages.
Status check_barrier(const Program& program, const Matching& matching,
                     std::span<const StepRef> order);

}  // namespace tutti::schedule::verifier
