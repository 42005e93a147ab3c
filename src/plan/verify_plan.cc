#include "src/plan/verify_plan.h"

#include <algorithm>

#include "src/plan/verify_plan_facts.h"
#include "src/plan/verify_plan_machine.h"

namespace tutti::plan {

namespace {

uint64_t shares_of(const PlanSet& set, uint32_t rank, bool output) {
  const int r = static_cast<int>(rank);
  return output ? schedule::output_elements(set.shape, r, 1)
                : schedule::input_elements(set.shape, r, 1);
}

}  // namespace

schedule::Extent share_of(const PlanSet& set, uint32_t rank, bool output, uint32_t index) {
  if (set.vectors.empty()) return {index * set.count, set.count};
  const schedule::CountVectors& vectors = set.vectors[rank];
  return {(output ? vectors.output_offsets : vectors.input_offsets)[index],
          (output ? vectors.output : vectors.input)[index]};
}

uint64_t elements_of(const PlanSet& set, uint32_t rank, bool output) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < shares_of(set, rank, output); ++i) {
    const schedule::Extent share = share_of(set, rank, output, i);
    end = std::max(end, share.offset + share.length);
  }
  return end;
}

Status verify_plans(std::span<const PlanSet* const> calls, const VerifyPlanOptions& options) {
  if (calls.empty()) return {};
  if (Status status = verifier::check_facts(calls); !status.ok()) return status;
  return verifier::Machine(calls, options).run();
}

Status verify_plans(const PlanSet& call, const VerifyPlanOptions& options) {
  const PlanSet* const calls[] = {&call};
  return verify_plans(calls, options);
}

}  // namespace tutti::plan
