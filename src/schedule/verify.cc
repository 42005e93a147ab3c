#include "src/schedule/verify.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/schedule/text.h"
#include "src/schedule/verify_cost.h"
#include "src/schedule/verify_deadlock.h"
#include "src/schedule/verify_hazards.h"
#include "src/schedule/verify_match.h"
#include "src/schedule/verify_program.h"
#include "src/schedule/verify_values.h"

namespace tutti::schedule {
namespace {

using namespace verifier;

// The facts that are true in every placement.
struct Common {
  Matching matching;
  std::vector<StepRef> order;
  uint32_t credit = 0;
  Cost cost;

  static Result<Common> of(const Program& program) {
    Result<Matching> matching = Matching::of(program);
    if (!matching.ok()) return matching.status();
    Result<std::vector<StepRef>> order = run_order(program, matching.value());
    if (!order.ok()) return order.status();
    const Result<Cost> cost = count_cost(program, matching.value(), order.value());
    if (!cost.ok()) return cost.status();
    const uint32_t credit = least_credit(program, matching.value());
    return Common{std::move(matching).value(), std::move(order).value(), credit, cost.value()};
  }
};

Result<Verdict> verdict_of(const Program& program, const Common& common,
                           const VerifyOptions& options) {
  const auto& [matching, order, credit, cost] = common;
  Verdict verdict;
  verdict.steps = order.size();
  verdict.messages = matching.messages().size();
  verdict.least_credit = credit;
  verdict.cost = cost;
  if (Status s = check_values(program, matching, order, verdict); !s.ok()) return s;
  if (program.shape().collective == Collective::kBarrier) {
    if (Status s = check_barrier(program, matching, order); !s.ok()) return s;
  }
  if (Status s = check_slices(program); !s.ok()) return s;
  if (options.hazards) {
    if (Status s = check_hazards(program, matching, order); !s.ok()) return s;
  }
  if (options.declared != nullptr && !same_cost(*options.declared, cost)) {
    return Status::invalid_argument("cost: declared " + print(*options.declared) + "; counted " +
                                    print(cost));
  }
  if (options.tree == nullptr) return verdict;
  Result<LevelLoads> loads = count_loads(program, matching, order, *options.tree);
  if (!loads.ok()) return loads.status();
  verdict.loads = std::move(loads).value();
  if (options.declared_loads != nullptr && !(*options.declared_loads == verdict.loads)) {
    return Status::invalid_argument("loads: declared " + print(*options.declared_loads) +
                                    "; counted " + print(verdict.loads));
  }
  return verdict;
}

}  // namespace

std::string print(const Cost& cost) {
  return "depth " + std::to_string(cost.depth) + ", " + std::to_string(cost.messages) +
         " messages, bytes " + print(cost.bytes) + ", published " + print(cost.published) +
         ", moved " + print(cost.moved) + ", work " + print(cost.work) + ", scratch " +
         print(cost.scratch) + ", widest " + std::to_string(cost.widest);
}

std::string print(const LevelLoads& loads) {
  std::string text;
  for (size_t level = 0; level < loads.depth.size(); ++level) {
    text += (level == 0 ? "level " : "; level ") + std::to_string(level) + ": depth " +
            std::to_string(loads.depth[level]);
    const size_t nodes = level < loads.cuts.size() ? loads.cuts[level].size() : 0;  // as declared
    for (size_t node = 0; node < nodes; ++node) {
      const CutLoad& cut = loads.cuts[level][node];
      text += ", node " + std::to_string(node) + " out " + print(cut.out) + " in " + print(cut.in);
    }
  }
  return text;
}

bool same_cost(const Cost& a, const Cost& b) {
  return a.depth == b.depth && a.messages == b.messages && a.bytes == b.bytes &&
         a.published == b.published && a.moved == b.moved && a.work == b.work &&
         a.scratch == b.scratch && a.widest == b.widest;
}

Result<Verdict> verify(const Shape& shape, std::span<const Schedule> schedules,
                       const VerifyOptions& options) {
  return std::move(verify(shape, schedules, std::span(&options.placement, 1), options).front());
}

std::vector<Result<Verdict>> verify(const Shape& shape, std::span<const Schedule> schedules,
                                    std::span<const Placement> placements,
                                    const VerifyOptions& options) {
  std::optional<Result<Common>> common;  // of the first placement that is well formed
  std::vector<Result<Verdict>> verdicts;
  for (Placement placement : placements) {
    const Result<Program> program = Program::of(shape, schedules, placement);
    if (program.ok() && !common) common = Common::of(program.value());
    verdicts.push_back(!program.ok()   ? program.status()
                       : !common->ok() ? common->status()
                                       : verdict_of(program.value(), common->value(), options));
  }
  return verdicts;
}

}  // namespace tutti::schedule
