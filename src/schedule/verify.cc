#include "src/schedule/verify.h"

#include <string>

#include "src/schedule/text.h"
#include "src/schedule/verify_cost.h"
#include "src/schedule/verify_deadlock.h"
#include "src/schedule/verify_hazards.h"
#include "src/schedule/verify_match.h"
#include "src/schedule/verify_program.h"
#include "src/schedule/verify_values.h"

namespace tutti::schedule {

std::string print(const Cost& cost) {
  return "depth " + std::to_string(cost.depth) + ", " + std::to_string(cost.messages) +
         " messages, bytes " + print(cost.bytes) + ", published " + print(cost.published) +
         ", moved " + print(cost.moved) + ", work " + print(cost.work) + ", scratch " +
         print(cost.scratch) + ", widest " + std::to_string(cost.widest);
}

bool same_cost(const Cost& a, const Cost& b) {
  return a.depth == b.depth && a.messages == b.messages && a.bytes == b.bytes &&
         a.published == b.published && a.moved == b.moved && a.work == b.work &&
         a.scratch == b.scratch && a.widest == b.widest;
}

Result<Verdict> verify(const Shape& shape, std::span<const Schedule> schedules,
                       const VerifyOptions& options) {
  using namespace verifier;
  const Result<Program> checked = Program::of(shape, schedules, options.placement);
  if (!checked.ok()) return checked.status();
  const Program& program = checked.value();

  const Result<Matching> matched = Matching::of(program);
  if (!matched.ok()) return matched.status();
  const Matching& matching = matched.value();

  const Result<std::vector<StepRef>> ordered = run_order(program, matching);
  if (!ordered.ok()) return ordered.status();
  const std::vector<StepRef>& order = ordered.value();

  Verdict verdict;
  verdict.steps = order.size();
  verdict.messages = matching.messages().size();
  if (Status s = check_values(program, matching, order, verdict); !s.ok()) return s;
  if (shape.collective == Collective::kBarrier) {
    if (Status s = check_barrier(program, matching, order); !s.ok()) return s;
  }
  if (Status s = check_slices(program); !s.ok()) return s;
  if (options.hazards) {
    if (Status s = check_hazards(program, matching, order); !s.ok()) return s;
  }
  verdict.least_credit = least_credit(program, matching);

  const Result<Cost> counted = count_cost(program, matching, order);
  if (!counted.ok()) return counted.status();
  verdict.cost = counted.value();
  if (options.declared != nullptr && !same_cost(*options.declared, verdict.cost)) {
    return Status::invalid_argument("cost: declared " + print(*options.declared) + "; counted " +
                                    print(verdict.cost));
  }
  return verdict;
}

}  // namespace tutti::schedule
