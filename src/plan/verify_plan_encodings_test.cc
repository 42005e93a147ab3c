// Plans of groups whose levels encode: each is proved, and plans that encode twice, fold what is
// not decoded, or let an owner keep its exact value are refused.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "src/plan/verify_plan_examples_test.h"
#include "src/registry/algorithms.h"
#include "tests/support/sanitizer.h"
#include "tools/verifier/plan_mutants.h"

namespace tutti::plan {
namespace {

class EncodedPlans : public testing::TestWithParam<int> {};

TEST_P(EncodedPlans, AreRightInEveryLowering) {
  Tally total;
  uint64_t encoded = 0;
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    for (const Lowering& lowering : encoded_lowerings(algorithm, GetParam())) {
      const Report report = [](const std::string& which, const Status& why) {
        ADD_FAILURE() << which << ": " << why.message();
      };
      const Tally tally = verify_lowering(lowering, report);
      total.plan_sets += tally.plan_sets;
      total.refused += tally.refused;
      const PlanSet set = bind_all(match_all(lowering).value(), {40, types::DataType::kFloat32},
                                   small_tuning(false));
      for (const Plan& plan : set.plans) encoded += plan.encoded_bytes > 0 ? 1 : 0;
      if (total.refused > 5) return;
    }
  }
  EXPECT_GT(total.plan_sets, 100u);
  EXPECT_GT(encoded, 100u);
}

std::vector<int> numbers_of_ranks() {
  if (testing_support::kSanitized) return {2, 3};
  return {2, 3, 4, 5, 8, 9};
}
INSTANTIATE_TEST_SUITE_P(Ranks, EncodedPlans, testing::ValuesIn(numbers_of_ranks()));

// An exact copy of a partial sum that only its maker folds on is found where the result is for all.
TEST(EncodedMutants, AreRefused) {
  std::array<uint64_t, kFaults> made{}, accepted{};
  for (const char* name :
       {"all_reduce/ring", "all_reduce/recursive_doubling", "all_gather/ring", "broadcast/binomial",
        "all_reduce/hierarchical", "all_gather/hierarchical"}) {
    const schedule::Algorithm* algorithm = examples::find(registry::algorithms(), name);
    if (algorithm == nullptr) continue;
    for (const Lowering& lowering : encoded_lowerings(*algorithm, 4)) {
      if (lowering.placing != Placing::kSeparate || lowering.parameters.root > 0) continue;
      PlanSet set = bind_all(match_all(lowering).value(), {40, types::DataType::kFloat32},
                             small_tuning(false));
      each_mutant(set, [&](const Mutant& mutant) {
        if (mutant.fault < Fault::kKeepsExact) return;
        const auto fault = static_cast<size_t>(mutant.fault);
        ++made[fault];
        const Status status = verify_plans(set, small_rings(set).front());
        if (!status.ok()) return;
        ++accepted[fault];
        ADD_FAILURE() << print(lowering) << ": " << mutant.what;
      });
    }
  }
  for (const Fault fault : {Fault::kKeepsExact, Fault::kEncodesAgain, Fault::kReadsEncoded}) {
    EXPECT_GT(made[static_cast<size_t>(fault)], 20u) << name_of(fault);
    EXPECT_EQ(accepted[static_cast<size_t>(fault)], 0u) << name_of(fault);
  }
}

}  // namespace
}  // namespace tutti::plan
