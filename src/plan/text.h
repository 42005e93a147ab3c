// Plans in words: what `tutti print --plan` prints and counter-examples quote.
//
//   rank 0: 2 slices, store forwarding
//     every slice, lane 0
//       0: credit
//       1: move 512 elements: slot of rank 0 <- input + 2048
//
// Places are a register and bytes behind it; what moves with the slice is not said. Threads: pure.
#pragma once

#include <string>

#include "src/plan/plan.h"

namespace tutti::plan {

/// A micro-operation: "wait for 3 of rank 1".
std::string print(const Op& op);

/// The same with its operands.
std::string print(const Plan& plan, const Op& op);

/// All that one rank does.
std::string print(const Plan& plan, int rank);

}  // namespace tutti::plan
