#include "src/plan/verify_plan.h"

#include "src/plan/verify_plan_facts.h"
#include "src/plan/verify_plan_machine.h"

namespace tutti::plan {

Status verify_plans(std::span<const PlanSet* const> calls, const VerifyOptions& options) {
  if (calls.empty()) return {};
  if (Status status = verifier::check_facts(calls); !status.ok()) return status;
  return verifier::Machine(calls, options).run();
}

Status verify_plans(const PlanSet& call, const VerifyOptions& options) {
  const PlanSet* const calls[] = {&call};
  return verify_plans(calls, options);
}

}  // namespace tutti::plan
