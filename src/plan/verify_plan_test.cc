// Every registered algorithm, lowered in every way, is proved; wrong plans are refused.
#include "src/plan/verify_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "src/plan/verify_plan_examples_test.h"
#include "src/registry/algorithms.h"
#include "tests/support/sanitizer.h"
#include "tools/verifier/plan_mutants.h"

namespace tutti::plan {
namespace {

const schedule::Algorithm* find(const char* name) {
  return examples::find(registry::algorithms(), name);
}

using examples::hard_predecessor;
using examples::lower;

constexpr VerifyPlanOptions kTight = {.rounds = 3, .regions = 1, .frames_per_region = 1};

class EveryPlan : public testing::TestWithParam<int> {};

TEST_P(EveryPlan, IsRightInEveryLowering) {
  Tally total;
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    for (const Lowering& lowering : lowerings(algorithm, GetParam())) {
      const Report report = [](const std::string& which, const Status& why) {
        ADD_FAILURE() << which << ": " << why.message();
      };
      const Tally tally = verify_lowering(lowering, report);
      total.plan_sets += tally.plan_sets;
      total.refused += tally.refused;
    }
  }
  EXPECT_GT(total.plan_sets, 100u);
  EXPECT_EQ(total.refused, 0u);
}

// Calls of all kinds on the same rings, cells and counters.
TEST_P(EveryPlan, FollowsEveryOther) {
  for (Spread spread : {Spread::kOneDomain, Spread::kTwoDomains}) {
    std::vector<PlanSet> sets;
    for (const schedule::Algorithm& algorithm : registry::algorithms()) {
      for (const Lowering& lowering : lowerings(algorithm, GetParam())) {
        if (lowering.spread != spread || lowering.placing == Placing::kMixed) continue;
        const bool in_cells = sets.size() % 2 == 0;
        const uint64_t few = sets.size() % 4 == 0 ? 1 : 5;  // one may be tiny
        sets.push_back(lower(lowering, in_cells ? few : 40, in_cells));
      }
    }
    std::vector<const PlanSet*> calls;
    for (const PlanSet& set : sets) calls.push_back(&set);
    const Status status = verify_plans(calls, {.rounds = 2, .regions = 2, .frames_per_region = 1});
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

// The proofs are about values, which a sanitizer does not change: fewer of them there.
std::vector<int> numbers_of_ranks() {
  if (testing_support::kSanitized) return {1, 2, 3};
  return {1, 2, 3, 4, 5, 8};
}
INSTANTIATE_TEST_SUITE_P(Ranks, EveryPlan, testing::ValuesIn(numbers_of_ranks()));

TEST(VerifyPlan, AveragesScaleOrDivideOnce) {
  for (const char* name : {"all_reduce/two_shot", "all_reduce/ring", "reduce_scatter/direct"}) {
    const Lowering lowering{find(name), {.ranks = 3}};
    for (types::DataType type : {types::DataType::kFloat64, types::DataType::kInt64}) {
      Result<std::vector<Match>> matches = match_all(lowering);
      ASSERT_TRUE(matches.ok());
      for (Match& match : matches.value()) {
        ASSERT_TRUE(count_terms(match, *lowering.algorithm, lowering.parameters).ok());
      }
      PlanSet set = bind_all(matches.value(), {7, type, types::ReduceOp::kAvg}, {});
      const Status status = verify_plans(set);
      EXPECT_TRUE(status.ok()) << name << ": " << status.message();
      for (Op& op : set.plans[1].ops) {
        op.mask = kNoMask;
        op.divide = false;
      }
      EXPECT_FALSE(verify_plans(set).ok()) << name;
    }
  }
}

TEST(VerifyPlan, SaysWhoWritesUnderWhom) {
  PlanSet set = lower({find("broadcast/publish_once"), {.ranks = 2}}, 40, false);
  ASSERT_EQ(set.plans[1].ops[0].code, OpCode::kWait);
  set.plans[1].ops[0].value = 0;
  const Status status = verify_plans(set, kTight);
  ASSERT_FALSE(status.ok());
  const std::string message(status.message());
  for (const char* part : {"race for byte 0 of rank 0's ring of lane 0", "rank 0 lane 0 (call 0",
                           "rank 1 lane 0 (call 0", "writes it", "reads it"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
}

TEST(VerifyPlan, SaysWhoWaitsForWhat) {
  PlanSet set = lower({find("all_reduce/one_shot"), {.ranks = 2}}, 4, true);
  std::erase_if(set.plans[0].ops, [](const Op& op) { return op.code == OpCode::kRaise; });
  --set.plans[0].lanes[0].end;
  const std::string message(verify_plans(set).message());
  EXPECT_NE(message.find("all wait for ever"), std::string::npos) << message;
  EXPECT_NE(message.find("wait for cell 0 of rank 0"), std::string::npos) << message;
}

TEST(VerifyPlan, RefusesRanksThatCountOnDifferentThings) {
  const PlanSet right = lower({find("all_reduce/one_shot"), {.ranks = 3}}, 40, false);
  const auto refused = [&](auto change) {
    PlanSet wrong = right;
    change(wrong.plans[1]);
    return !verify_plans(wrong).ok();
  };
  EXPECT_TRUE(verify_plans(right).ok());
  EXPECT_TRUE(refused([](Plan& plan) { ++plan.lanes[0].advance; }));
  EXPECT_TRUE(refused([](Plan& plan) { ++plan.lanes[0].cells; }));
  EXPECT_TRUE(refused([](Plan& plan) { plan.lanes[0].tiny = true; }));
  EXPECT_TRUE(refused([](Plan& plan) { plan.lanes[0].frame_bytes += 64; }));
  EXPECT_TRUE(refused([](Plan& plan) { plan.lanes[0].region_bytes = 4096; }));
  EXPECT_TRUE(refused([](Plan& plan) { ++plan.slices; }));
  EXPECT_TRUE(refused([](Plan& plan) { plan.prologue.push_back({.code = OpCode::kEnter}); }));
  EXPECT_TRUE(refused([](Plan& plan) { plan.ops[1].operands = ~0u; }));
  EXPECT_TRUE(refused([](Plan& plan) { plan.memory.fill(MemoryKind::kDevice); }));
}

// The region is given back when its last frame has been written, not read.
TEST(VerifyPlan, RefusesCreditThatComesOneFrameEarly) {
  VerifyPlanOptions early = kTight;
  early.walk.late_release = false;
  const char* const names[] = {"all_reduce/one_shot", "broadcast/publish_once",
                               "all_to_all/pairwise"};
  for (const char* name : names) {
    for (bool in_cells : {true, false}) {
      const Lowering lowering{find(name), {.ranks = 3}};
      const PlanSet set = lower(lowering, in_cells ? 4 : 40, in_cells);
      const PlanSet before = hard_predecessor(set, lowering.spread);
      const PlanSet* const calls[] = {&before, &set};
      EXPECT_TRUE(verify_plans(calls, kTight).ok()) << name;
      EXPECT_FALSE(verify_plans(calls, early).ok()) << name;
    }
  }
}

// Four calls share a cell: only later ones use it again.
TEST(VerifyPlan, RefusesTinyPlansThatGiveNoCredit) {
  PlanSet set = lower({find("broadcast/publish_once"), {.ranks = 3}}, 1, true);
  const VerifyPlanOptions again = small_rings(set)[0];
  ASSERT_TRUE(set.plans[0].lanes[0].tiny);
  EXPECT_TRUE(verify_plans(set, again).ok()) << verify_plans(set, again).message();
  VerifyPlanOptions early = again;
  early.walk.late_release = false;
  EXPECT_FALSE(verify_plans(set, early).ok());
  Plan& root = set.plans[0];
  const size_t before = root.ops.size();
  std::erase_if(root.ops, [](const Op& op) { return op.code == OpCode::kCredit; });
  ASSERT_EQ(root.ops.size(), before - 1);
  --root.lanes[0].end;
  EXPECT_FALSE(verify_plans(set, again).ok());
}

// A flag is told by its value, so no payload may come to lie where a flag will be.
TEST(VerifyPlan, RefusesPayloadAmongTheFlagsOfTinyParts) {
  const PlanSet right = lower({find("broadcast/publish_once"), {.ranks = 2}}, 5, true);
  ASSERT_FALSE(right.plans[0].lanes[0].tiny);
  for (const auto& [offset, accepted] : {std::pair{128u, true}, {32u, false}, {96u, false}}) {
    PlanSet moved = right;
    for (Plan& plan : moved.plans) {
      for (Operand& operand : plan.operands) {
        if (operand.shift == Shift::kCell) operand.offset = offset;
      }
    }
    EXPECT_EQ(verify_plans(moved).ok(), accepted) << offset;
  }
}

// Lanes between hosts cross in one long slice, which the other lanes do in parts.
PlanSet lower_in_parts(const char* name, Mode mode) {
  const auto all = lowerings(*find(name), {.ranks = 6, .lanes = 3});
  const auto wanted = std::find_if(all.begin(), all.end(), [&](const Lowering& one) {
    return one.spread == Spread::kTwoDomains && one.mode == mode;
  });
  const Result<std::vector<Match>> matches = match_all(*wanted);
  BindRequest request{700, types::DataType::kFloat64, types::ReduceOp::kSum};
  request.far_slices = 2;
  return bind_all(matches.value(), request, small_tuning(false));
}

/// Whether a lane waits for one that does a slice in more parts.
bool awaits_parts(const PlanSet& set) {
  for (const Plan& plan : set.plans) {
    for (const LanePlan& lane : plan.lanes) {
      for (uint32_t i = lane.begin; i < lane.end; ++i) {
        const Op& op = plan.ops[i];
        if (op.code == OpCode::kAfter && plan.lanes[op.peer].parts > lane.parts) return true;
      }
    }
  }
  return false;
}

TEST(VerifyPlan, ALaneWaitsForAllPartsOfASliceOfAnother) {
  for (const char* name : {"all_reduce/hierarchical", "all_reduce/hierarchical_doubling",
                           "reduce_scatter/hierarchical", "all_gather/hierarchical",
                           "broadcast/hierarchical", "reduce/hierarchical"}) {
    for (const Mode mode : {Mode::kStaged, Mode::kDirect}) {
      PlanSet set = lower_in_parts(name, mode);
      const std::vector<LanePlan>& lanes = set.plans[0].lanes;
      ASSERT_TRUE(std::any_of(lanes.begin(), lanes.end(), [](const LanePlan& lane) {
        return lane.parts > 1;
      })) << name;
      ASSERT_EQ(set.plans[0].slices, 2u) << name;
      ASSERT_TRUE(verify_plans(set, kTight).ok()) << name << verify_plans(set, kTight).message();
      VerifyPlanOptions first_part = kTight;
      first_part.walk.last_part = false;
      EXPECT_EQ(verify_plans(set, first_part).ok(), !awaits_parts(set)) << name;
      // Where nothing is folded, some steps only send what was there at entry.
      const bool all_wait = schedule::reduces(set.shape.collective);
      int dropped = 0, refused = 0;
      each_mutant(set, [&](const Mutant& mutant) {
        if (mutant.fault != Fault::kNoAfter) return;
        const bool right = verify_plans(set, kTight).ok();
        ++dropped;
        refused += right ? 0 : 1;
        EXPECT_FALSE(right && all_wait) << name << ": " << mutant.what;
      });
      EXPECT_GT(dropped, 0) << name;
      EXPECT_GT(refused, 0) << name;
    }
  }
}

TEST(VerifyPlan, RefusesRanksWhoseLanesHaveOtherParts) {
  PlanSet set = lower_in_parts("all_reduce/hierarchical", Mode::kStaged);
  ASSERT_TRUE(verify_plans(set, kTight).ok());
  for (LanePlan& lane : set.plans[5].lanes) lane.parts = 1;
  EXPECT_NE(verify_plans(set, kTight).message().find("parts"), std::string::npos);
}

// Every rank has a host of its own, so that nothing is staged and no lane has parts.
TEST(VerifyPlan, RanksThatAreAllApartHaveLongSlices) {
  for (const char* name : {"all_reduce/ring", "all_reduce/two_shot", "all_gather/ring",
                           "reduce_scatter/ring", "all_to_all/pairwise", "broadcast/chain"}) {
    const auto all = lowerings(*find(name), {.ranks = 4, .lanes = 1});
    const auto wanted = std::ranges::find_if(
        all, [](const Lowering& one) { return one.spread == Spread::kAllApart; });
    ASSERT_NE(wanted, all.end()) << name;
    const Result<std::vector<Match>> matches = match_all(*wanted);
    BindRequest request{700, types::DataType::kFloat64, types::ReduceOp::kSum};
    const uint64_t short_slices =
        bind_all(matches.value(), request, small_tuning(false)).plans[0].slices;
    ASSERT_GT(short_slices, 2u) << name;
    request.far_slices = 2;
    const PlanSet set = bind_all(matches.value(), request, small_tuning(false));
    EXPECT_EQ(set.plans[0].slices, 2u) << name;
    EXPECT_EQ(set.plans[0].lanes[0].parts, 1u) << name;
    EXPECT_TRUE(verify_plans(set, kTight).ok()) << name << verify_plans(set, kTight).message();
  }
}

// Messages of each level have a lane of their own: near ones move in parts of the far ones' slices.
TEST(VerifyPlan, MessagesThatWaitForNoneMoveInLanesOfTheirLevels) {
  for (const char* name : {"all_to_all/pairwise", "gather/direct", "scatter/direct"}) {
    const auto all = lowerings(*find(name), {.ranks = 4, .lanes = 2});
    const auto wanted = std::ranges::find_if(
        all, [](const Lowering& one) { return one.spread == Spread::kTwoDomains; });
    ASSERT_NE(wanted, all.end()) << name;
    const Result<std::vector<Match>> matches = match_all(*wanted);
    BindRequest request{700, types::DataType::kFloat64, types::ReduceOp::kSum};
    request.far_slices = 1;
    const PlanSet set = bind_all(matches.value(), request, small_tuning(false));
    EXPECT_EQ(set.plans[0].slices, 1u) << name;
    EXPECT_GT(set.plans[0].lanes[0].parts, 1u) << name;
    EXPECT_EQ(set.plans[0].lanes[1].parts, 1u) << name;
    EXPECT_TRUE(verify_plans(set, kTight).ok()) << name << verify_plans(set, kTight).message();
  }
}

// ---- mutants ------------------------------------------------------------------------------------

struct Mutated {
  std::string algorithm;
  int ranks;
  uint64_t count;
  uint16_t lanes = 1;
  Spread spread = Spread::kOneDomain;
  Mode mode = Mode::kStaged;
  Placing placing = Placing::kSeparate;
};

void PrintTo(const Mutated& m, std::ostream* out) { *out << m.algorithm << " " << name_of(m.mode); }

/// Whether a rank of a domain hears in every slice from one that waits for credit before it has
/// published anything itself. The frames of a slice lie alike on all ranks, so both wait for
/// the same: the message says that all the others have passed what lay there. Exact for plans of
/// one lane; of several it does not tell lanes apart.
bool is_given_credit(const PlanSet& set, uint32_t rank) {
  const auto gives = [&](uint32_t peer) {
    const std::vector<Op>& ops = set.plans[peer].ops;
    return std::any_of(ops.begin(), ops.end(),
                       [](const Op& op) { return op.code == OpCode::kCredit; });
  };
  const Plan& plan = set.plans[rank];
  for (const Op& op : plan.ops) {
    const bool awaits = op.code == OpCode::kWait || op.code == OpCode::kWaitCell;
    if (awaits && gives(op.peer)) return true;
    for (uint32_t i = 0; i < op.target_count; ++i) {
      const uint32_t base = plan.operands[op.operands + i].base;
      if (base >= register_of(Base::kFixed)) return false;
    }
    if (op.code == OpCode::kRaise) return false;
  }
  return false;
}

class PlanMutants : public testing::TestWithParam<Mutated> {
 protected:
  // Faults that no other micro-operation can make up for. Of the others some are none: what waits
  // longer, or in another order, may still be right, and a wait may be implied by a second one.
  static bool is_fatal(const Mutant& mutant, const Mutated& m, const PlanSet& set) {
    switch (mutant.fault) {
      case Fault::kNoEnd:
      case Fault::kNoRaise:
      case Fault::kNoWaitCell:
      case Fault::kNoWaitEnter:
      case Fault::kNoWaitsFor:
      case Fault::kNoPost:
      case Fault::kNoArrived:
      case Fault::kNoMove:
      case Fault::kShiftedOperand:
      case Fault::kShorter:
        return true;
      // Entries and readers' signals say as much as a credit; so may messages of other domains.
      case Fault::kNoCredit:
        return m.mode == Mode::kStaged && m.spread == Spread::kOneDomain &&
               !is_given_credit(set, mutant.rank);
      // Two lanes may both wait for a send before they overwrite its source.
      case Fault::kNoSent:
        return m.lanes == 1;
      case Fault::kNoWait:
      case Fault::kNoLaterWaits:
        return m.mode == Mode::kStaged || m.mode == Mode::kPullInputs;
      // In one slice of two_shot every rank has waited for its readers before.
      case Fault::kNoReaderWait:
        return m.mode == Mode::kPullInputs ||
               (m.mode == Mode::kDirect && m.algorithm != "all_reduce/two_shot");
      default:
        return false;
    }
  }
};

TEST_P(PlanMutants, AreRefusedOrRight) {
  const Mutated& m = GetParam();
  const schedule::Parameters parameters{.ranks = m.ranks, .lanes = m.lanes};
  const Lowering lowering{find(m.algorithm.c_str()), parameters, m.spread, m.mode, m.placing};
  std::array<int, kFaults> made{}, accepted{};
  for (bool in_cells : {true, false}) {
    PlanSet set = lower(lowering, m.count, in_cells);
    if (in_cells && set.plans[0].lanes[0].cells == 0) continue;
    const PlanSet before = hard_predecessor(set, m.spread);
    const PlanSet* const calls[] = {&before, &set};
    ASSERT_TRUE(verify_plans(calls, kTight).ok()) << verify_plans(calls, kTight).message();
    each_mutant(set, [&](const Mutant& mutant) {
      ++made[static_cast<size_t>(mutant.fault)];
      bool right = verify_plans(calls, kTight).ok();
      for (const VerifyPlanOptions& options : small_rings(set)) {
        right = right && verify_plans(set, options).ok();
      }
      const bool none = mutant.fault == Fault::kNoCredit && set.plans[0].lanes.size() == 1 &&
                        is_given_credit(set, mutant.rank);
      EXPECT_TRUE(right || !none) << print(lowering) << ": " << mutant.what;
      if (!right) return;
      ++accepted[static_cast<size_t>(mutant.fault)];
      EXPECT_FALSE(is_fatal(mutant, m, set)) << print(lowering) << ": " << mutant.what;
    });
  }
  for (int i = 0; i < kFaults; ++i) {
    if (accepted[i] == 0) continue;
    const std::string text = std::to_string(accepted[i]) + " of " + std::to_string(made[i]);
    RecordProperty(std::string("equivalent: ") + name_of(static_cast<Fault>(i)), text);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, PlanMutants,
    testing::Values(Mutated{"all_reduce/one_shot", 3, 40},
                    Mutated{"all_reduce/one_shot", 3, 40, 1, Spread::kOneDomain, Mode::kDirect},
                    Mutated{"all_reduce/two_shot", 3, 40},
                    Mutated{"all_reduce/two_shot", 3, 40, 1, Spread::kOneDomain, Mode::kDirect,
                            Placing::kInPlace},
                    Mutated{"all_reduce/ring", 3, 100, 1, Spread::kOneDomain, Mode::kSingleCopy},
                    Mutated{"all_reduce/ring", 4, 40, 2, Spread::kTwoDomains},
                    Mutated{"all_reduce/recursive_doubling", 4, 40},
                    Mutated{"broadcast/publish_once", 3, 40},
                    Mutated{"broadcast/binomial", 4, 40, 1, Spread::kOneDomain, Mode::kDirect},
                    Mutated{"all_to_all/pairwise", 3, 40, 1, Spread::kOneDomain, Mode::kDirect,
                            Placing::kInPlace},
                    Mutated{"all_to_all/pairwise", 3, 40, 1, Spread::kAllApart},
                    Mutated{"all_to_all/pairwise", 3, 40, 1, Spread::kOneDomain, Mode::kPullInputs},
                    Mutated{"all_gather/direct", 3, 40, 1, Spread::kOneDomain, Mode::kPullInputs,
                            Placing::kInPlace},
                    Mutated{"broadcast/publish_once", 3, 40, 1, Spread::kOneDomain,
                            Mode::kPullInputs},
                    Mutated{"all_reduce/two_shot", 3, 40, 1, Spread::kOneDomain, Mode::kPull,
                            Placing::kInPlace},
                    Mutated{"reduce_scatter/direct", 3, 40, 1, Spread::kTwoDomains},
                    Mutated{"all_gather/direct", 3, 40}));

// Within one domain, and between hosts, where nothing but messages says that data is there.
std::vector<Mutated> every_algorithm() {
  std::vector<Mutated> all;
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    const std::string name = std::string(schedule::name_of(algorithm.collective)) + "/";
    for (const Spread spread : {Spread::kOneDomain, Spread::kAllApart}) {
      all.push_back({name + std::string(algorithm.name), 3, 40, 1, spread});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(OfEveryAlgorithm, PlanMutants, testing::ValuesIn(every_algorithm()));

}  // namespace
}  // namespace tutti::plan
