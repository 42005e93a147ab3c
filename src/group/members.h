// The ids of the members of a group, from what each rank says of itself.
//
// Threads: pure. Errors: none.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/base/member_id.h"

namespace tutti::group {

/// By rank. A member that has a number from an earlier group keeps it; where two of one process
/// claim the same number, the lower rank has it. The others of the process get the least numbers
/// that are left, in the order of their ranks. Equal on all ranks, since all see the same `claims`.
std::vector<MemberId> number_members(std::span<const MemberId> claims);

/// Distinct ids that stand for nobody, for groups that are not here.
std::vector<MemberId> placeholder_members(size_t count);

}  // namespace tutti::group
