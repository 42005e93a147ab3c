#include "src/plan/bind.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/plan/emit.h"
#include "src/plan/verify_plan_examples_test.h"
#include "src/registry/algorithms.h"

namespace tutti::plan {
namespace {

const schedule::Algorithm* find(const char* name) {
  return examples::find(registry::algorithms(), name);
}

Match match_of(const char* name, int ranks, Mode mode = Mode::kStaged,
               Spread spread = Spread::kOneDomain) {
  return match_all({find(name), {.ranks = ranks}, spread, mode}).value()[0];
}

TEST(SliceGeometry, SmallMessagesTravelInCells) {
  const Match match = match_of("all_reduce/one_shot", 4);
  const auto in_cells = [&](uint64_t count) {
    return measure(match, {count, types::DataType::kInt8}, {}).in_cells;
  };
  EXPECT_TRUE(in_cells(1));
  EXPECT_TRUE(in_cells(kCellPayloadBytes));
  EXPECT_FALSE(in_cells(kCellPayloadBytes + 1));
}

TEST(SliceGeometry, ManyMessagesNeedManyCells) {
  Tuning tuning;
  const Match match = match_of("all_reduce/ring", 4);  // six messages a rank
  tuning.cells_per_region = 6;
  EXPECT_TRUE(measure(match, {4}, tuning).in_cells);
  tuning.cells_per_region = 5;
  EXPECT_FALSE(measure(match, {4}, tuning).in_cells);
}

// All ranks must cut alike, whatever they send themselves.
TEST(SliceGeometry, IsTheSameOnAllRanks) {
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    for (const Lowering& lowering : lowerings(algorithm, 5)) {
      const Result<std::vector<Match>> matches = match_all(lowering);
      for (uint64_t count : small_counts(lowering)) {
        const BindRequest request{count, types::DataType::kFloat32};
        const SliceGeometry first = measure(matches.value()[0], request, small_tuning(false));
        for (const Match& match : matches.value()) {
          const SliceGeometry other = measure(match, request, small_tuning(false));
          EXPECT_EQ(first.slices, other.slices) << print(lowering);
          EXPECT_EQ(first.stride, other.stride) << print(lowering);
        }
      }
    }
  }
}

TEST(SliceGeometry, FramesStayNearTheirLimit) {
  const Match match = match_of("all_reduce/two_shot", 4);
  const Tuning tuning;
  const BindRequest request{100'000'000, types::DataType::kFloat32};
  const Plan plan = bind(match, request, tuning);
  EXPECT_GT(plan.slices, 100u);
  EXPECT_LE(plan.lanes[0].frame_bytes, tuning.frame_bytes + 4 * 3 * 64);
  // A block's piece of any slice fits its place in the frame.
  const SliceGeometry geometry = measure(match, request, tuning);
  const uint64_t longest = request.count / 4;
  for (uint64_t slice = 0; slice < plan.slices; slice += 13) {
    const schedule::Extent piece = schedule::piece(longest, slice, plan.slices, plan.quantum);
    EXPECT_LE(piece.length * plan.element_bytes, geometry.stride);
  }
}

TEST(SliceGeometry, APipelineStaysWithinAPartOfEachRegion) {
  const Tuning tuning;
  const BindRequest request{100'000'000, types::DataType::kFloat32};
  const Plan broadcast = bind(match_of("broadcast/publish_once", 4), request, tuning);
  EXPECT_LE(broadcast.lanes[0].region_bytes, tuning.pipeline_region_bytes + 64);
  EXPECT_LE(broadcast.lanes[0].frame_bytes, broadcast.lanes[0].region_bytes);
  const Plan all_reduce = bind(match_of("all_reduce/two_shot", 4), request, tuning);
  EXPECT_EQ(all_reduce.lanes[0].region_bytes, tuning.region_bytes);
}

TEST(SliceGeometry, ALongPipelineStaysWithinLess) {
  Tuning tuning;
  tuning.long_pipeline_bytes = 32 << 20;  // whose slices would be longer than its frames
  const uint64_t count = tuning.long_pipeline_bytes / 4;
  const Match match = match_of("broadcast/publish_once", 4);
  const LanePlan shorter = bind(match, {count - 1}, tuning).lanes[0];
  EXPECT_GT(shorter.frame_bytes, tuning.long_frame_bytes + 2 * 64);
  const LanePlan longer = bind(match, {count}, tuning).lanes[0];
  EXPECT_LE(longer.frame_bytes, tuning.long_frame_bytes + 2 * 64);
  EXPECT_EQ(longer.region_bytes, longer.frame_bytes);
  Tuning never = tuning;
  never.long_pipeline_bytes = ~uint64_t{0};
  EXPECT_GT(bind(match, {count}, never).lanes[0].frame_bytes, tuning.long_frame_bytes + 2 * 64);
}

// The root's frame holds a block for each rank.
TEST(SliceGeometry, TheBlocksOfAPipelineAreNotCutShort) {
  const Tuning tuning;
  const auto scatter_16_mib = [&](int ranks) {
    const uint64_t count = (uint64_t{16} << 20) / 4 / static_cast<uint64_t>(ranks);
    const Plan plan = bind(match_of("scatter/direct", ranks), {count}, tuning);
    EXPECT_LE(plan.lanes[0].frame_bytes, tuning.frame_bytes + static_cast<uint64_t>(ranks) * 192);
    return count * 4 / plan.slices;
  };
  EXPECT_GE(scatter_16_mib(16), tuning.pipeline_bytes - 64);
  EXPECT_LT(scatter_16_mib(64), tuning.pipeline_bytes) << "or its frame were too long";
}

TEST(SliceGeometry, TheLanesOfAPlanShareOneRing) {
  const Tuning tuning;
  schedule::Parameters parameters{.ranks = 4};
  parameters.lanes = 4;
  const Lowering lowering{find("all_reduce/ring"), parameters};
  const Plan plan = bind(match_all(lowering).value()[0], {100'000'000}, tuning);
  ASSERT_EQ(plan.lanes.size(), 4u);
  for (const LanePlan& lane : plan.lanes) EXPECT_LE(lane.region_bytes, tuning.region_bytes / 4);
}

TEST(SliceGeometry, DirectPlansNeedNoFramesAndNoSlices) {
  const Match match = match_of("all_reduce/two_shot", 4, Mode::kDirect);
  const Plan plan = bind(match, {100'000'000}, {});
  EXPECT_EQ(plan.slices, 1u);
  EXPECT_EQ(plan.lanes[0].frame_bytes, 0u);
  EXPECT_FALSE(plan.lanes[0].publishes);
}

TEST(Bind, EveryLaneEndsWithItsSignal) {
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    for (const Lowering& lowering : lowerings(algorithm, 3)) {
      const PlanSet set = examples::lower(lowering, 40, false);
      for (const Plan& plan : set.plans) {
        for (const LanePlan& lane : plan.lanes) {
          ASSERT_LT(lane.begin, lane.end);
          EXPECT_EQ(plan.ops[lane.end - 1].code, OpCode::kSignal) << print(lowering);
          EXPECT_EQ(plan.ops[lane.end - 1].value, lane.advance) << print(lowering);
        }
      }
    }
  }
}

// Scratch blocks lie a piece apart, which is less than their length: they must not look as if they
// overlapped, or a lane waits for another lane's send before it was posted.
TEST(Bind, ScratchOfOneLaneDoesNotWaitForAnother) {
  const Lowering lowering{find("reduce_scatter/ring"), {.ranks = 4, .lanes = 2}, Spread::kAllApart};
  const PlanSet set = examples::lower(lowering, 51, false);
  ASSERT_GT(set.plans[0].slices, 1u);
  for (const Plan& plan : set.plans) {
    for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
      for (uint32_t i = plan.lanes[lane].begin; i < plan.lanes[lane].end; ++i) {
        if (plan.ops[i].code != OpCode::kStreamSent) continue;
        EXPECT_EQ(plan.ops[i].lane, lane);
      }
    }
  }
  const Status status = verify_plans(set);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(CountTerms, CountsContributionsOfEveryFold) {
  const Lowering lowering{find("all_reduce/ring"), {.ranks = 4}};
  std::vector<Match> matches = match_all(lowering).value();
  ASSERT_TRUE(count_terms(matches[0], *lowering.algorithm, lowering.parameters).ok());
  std::vector<uint32_t> folds;
  for (uint32_t i = 0; i < matches[0].schedule.steps.size(); ++i) {
    const schedule::Step& step = matches[0].schedule.steps[i];
    const bool is_fold = step.kind == schedule::StepKind::kMove && step.operand_count > 1;
    if (is_fold) folds.push_back(matches[0].target_terms[matches[0].target_terms_begin[i]]);
  }
  EXPECT_EQ(folds, (std::vector<uint32_t>{2, 3, 4}));
}

// One message of seven ranks' circulant carries sums of two beside a share that is still alone.
TEST(CountTerms, BlocksOfOneStepMayHoldDifferentNumbers) {
  const Lowering lowering{find("reduce_scatter/circulant"), {.ranks = 7}};
  std::vector<Match> matches = match_all(lowering).value();
  for (Match& match : matches) {
    ASSERT_TRUE(count_terms(match, *lowering.algorithm, lowering.parameters).ok());
    // Seven contributions are complete, and a rank completes its own share only.
    EXPECT_EQ(std::count(match.target_terms.begin(), match.target_terms.end(), 7u), 1);
    EXPECT_EQ(*std::max_element(match.target_terms.begin(), match.target_terms.end()), 7u);
  }
}

}  // namespace
}  // namespace tutti::plan
