// Checks of plans without running them: all ranks count alike, the count vectors of both sides of a
// pair agree, and every index names something.
#pragma once

#include <span>

#include "src/base/status.h"
#include "src/plan/verify_plan.h"

namespace tutti::plan::verifier {

/// The symbolic run relies on it; a set that is refused here is not run.
Status check_facts(std::span<const PlanSet* const> calls);

}  // namespace tutti::plan::verifier
