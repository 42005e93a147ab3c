// An edit in ranks, as its callers say it, and the same as a wish of members.
//
// Threads: a value; pure functions. Errors: kInvalidArgument names the field and the rank.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/consensus/wish.h"

namespace tutti::comm {

/// In EditPlan::order: a newcomer, whoever it is.
inline constexpr int kNewcomer = -1;

/// Equal on all ranks that stay.
struct EditPlan {
  bool removes_dead = false;  // whoever is dead, instead of `removed`
  std::vector<int> removed;   // ranks of the present epoch
  uint32_t newcomers = 0;     // that are waited for
  // If not empty: the next epoch's ranks, as ranks of the present one or kNewcomer. A rank that is
  // not listed is removed.
  std::vector<int> order;
  uint32_t at_least = 0;  // members that must agree, beyond what the rule demands
};

/// The wish for the successor of `present`.
Result<consensus::Wish> wish_of(const EditPlan& plan, const consensus::View& present);

}  // namespace tutti::comm
