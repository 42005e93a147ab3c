// Plans of v-collectives are proved as all others: on skewed counts, with every schedule that may
// run them, and after the size round of those that forward.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <tuple>

#include "src/plan/verify_plan.h"
#include "src/registry/algorithms.h"
#include "tests/support/sanitizer.h"
#include "tools/verifier/plan_sweep.h"

namespace tutti::plan {
namespace {

using schedule::Block;
using schedule::Collective;
using schedule::CountVectors;
using schedule::Schedule;
using schedule::Source;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

/// The counts from each rank to each other one; shared counts are the first row.
using Matrix = std::vector<std::vector<uint64_t>>;

// Zeros, ones, several pieces, and one share much longer than all others.
Matrix matrix_of(int ranks, bool symmetric) {
  constexpr uint64_t kCounts[] = {3, 0, 70, 1, 8, 0, 17, 2};
  Matrix matrix;
  for (int from = 0; from < ranks; ++from) {
    std::vector<uint64_t>& row = matrix.emplace_back();
    for (int to = 0; to < ranks; ++to) {
      row.push_back(kCounts[(symmetric ? from * to + from + to : 3 * from + to) % 8]);
    }
  }
  return matrix;
}

uint64_t longest_of(const Matrix& matrix, bool is_shared) {
  uint64_t longest = 0;
  for (const auto& row : matrix) {
    for (uint64_t count : row) longest = std::max(longest, count);
    if (is_shared) break;
  }
  return longest;
}

// A gap before every share, so that places differ from packed ones.
std::vector<uint64_t> places_of(const std::vector<uint64_t>& counts) {
  std::vector<uint64_t> places;
  uint64_t at = 0;
  for (uint64_t count : counts) {
    places.push_back(at += 2);
    at += count;
  }
  return places;
}

CountVectors vectors_of(const schedule::Traits& traits, const Matrix& matrix, int rank) {
  const auto own = static_cast<size_t>(rank);
  const bool is_private = traits.input.parts && traits.output.parts;
  CountVectors vectors;
  vectors.longest = longest_of(matrix, !is_private);
  vectors.input =
      traits.input.parts ? matrix[is_private ? own : 0] : std::vector<uint64_t>{matrix[0][own]};
  vectors.output = traits.output.parts ? matrix[0] : std::vector<uint64_t>{matrix[0][own]};
  if (is_private) {
    for (size_t peer = 0; peer < matrix.size(); ++peer) vectors.output[peer] = matrix[peer][own];
  }
  vectors.input_offsets = traits.input.parts ? places_of(vectors.input) : std::vector<uint64_t>{0};
  vectors.output_offsets =
      traits.output.parts ? places_of(vectors.output) : std::vector<uint64_t>{0};
  return vectors;
}

/// The size round on paper: blocks hold their own lengths.
class Learning {
 public:
  Learning(std::span<const Match> matches, std::vector<CountVectors>& vectors)
      : matches_(matches), vectors_(vectors), next_(matches.size(), 0) {}

  void run() {
    for (size_t rank = 0; rank < matches_.size(); ++rank) {
      vectors_[rank].scratch.assign(schedule_of(rank).scratch.size(), ~uint64_t{0});
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < matches_.size(); ++rank) {
        while (next_[rank] < schedule_of(rank).steps.size() && step(rank)) moved = true;
      }
    }
  }

 private:
  const Schedule& schedule_of(size_t rank) const { return matches_[rank].schedule; }

  uint64_t length(size_t rank, Block block) const {
    return schedule::Layout(matches_[rank].shape, vectors_[rank]).length(schedule_of(rank), block);
  }

  bool step(size_t rank) {
    const Schedule& schedule = schedule_of(rank);
    const Step& step = schedule.steps[next_[rank]];
    const auto blocks = schedule.blocks_of(step);
    std::vector<uint64_t> lengths;
    if (step.kind == StepKind::kSend) {
      for (Block block : blocks) lengths.push_back(length(rank, block));
      for (uint32_t peer : schedule.peers_of(step)) channels_[{rank, peer}].push_back(lengths);
    } else {
      const Source source = schedule.sources_of(step)[0];
      if (source.is_message()) {
        auto& channel = channels_[{static_cast<size_t>(source.peer()), rank}];
        if (channel.empty()) return false;
        lengths = channel.front();
        channel.pop_front();
      } else {
        for (Block block : schedule.blocks_of(step, source)) lengths.push_back(length(rank, block));
      }
      for (size_t i = 0; i < blocks.size(); ++i) {
        if (blocks[i].space() == Space::kScratch) {
          vectors_[rank].scratch[blocks[i].index()] = lengths[i];
        } else {
          EXPECT_EQ(length(rank, blocks[i]), lengths[i]) << "rank " << rank;
        }
      }
    }
    ++next_[rank];
    return true;
  }

  std::span<const Match> matches_;
  std::vector<CountVectors>& vectors_;
  std::vector<size_t> next_;
  std::map<std::pair<size_t, size_t>, std::deque<std::vector<uint64_t>>> channels_;
};

Result<PlanSet> lower(const Lowering& lowering, bool in_cells, uint64_t far_slices = 0) {
  const Result<std::vector<Match>> matches = match_all(lowering);
  if (!matches.ok()) return matches.status();
  const int ranks = lowering.parameters.ranks;
  const Matrix matrix = matrix_of(ranks, lowering.placing != Placing::kSeparate);
  const schedule::Traits& traits = schedule::traits_of(lowering.algorithm->collective);
  std::vector<CountVectors> vectors;
  for (int rank = 0; rank < ranks; ++rank) vectors.push_back(vectors_of(traits, matrix, rank));
  if (lowering.single_assignment) Learning(matches.value(), vectors).run();
  BindRequest request{0, types::DataType::kFloat64, types::ReduceOp::kSum};
  request.far_slices = far_slices;
  return bind_all(matches.value(), std::move(vectors), request, small_tuning(in_cells));
}

// The lowerings that v-collectives have: staged, of collectives with parts.
std::vector<Lowering> vector_lowerings(int ranks) {
  std::vector<Lowering> all;
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    const Collective collective = algorithm.collective;
    const bool has_vectors = collective == Collective::kAllGather ||
                             collective == Collective::kReduceScatter ||
                             collective == Collective::kAllToAll;
    if (!has_vectors || algorithm.needs_equal_counts) continue;
    for (Lowering lowering : lowerings(algorithm, ranks)) {
      lowering.single_assignment = algorithm.forwards;
      if (lowering.mode == Mode::kStaged) all.push_back(lowering);
    }
  }
  return all;
}

class VectorPlans : public testing::TestWithParam<int> {};

TEST_P(VectorPlans, AreRightInEveryLowering) {
  struct Way {
    bool in_cells;
    uint64_t far_slices;
  };
  size_t several_slices = 0, cells = 0;
  for (const Lowering& lowering : vector_lowerings(GetParam())) {
    for (const Way way : {Way{true, 0}, Way{false, 0}, Way{false, 2}}) {
      const Result<PlanSet> set = lower(lowering, way.in_cells, way.far_slices);
      ASSERT_TRUE(set.ok()) << set.status().message();
      several_slices += set.value().plans[0].slices > 1 ? 1 : 0;
      cells += set.value().plans[0].lanes[0].cells > 0 ? 1 : 0;
      for (const VerifyPlanOptions& options : small_rings(set.value())) {
        const Status status = verify_plans(set.value(), options);
        EXPECT_TRUE(status.ok()) << print(lowering) << ": " << status.message();
      }
    }
  }
  EXPECT_GT(cells, 0u);
  if (GetParam() > 2) {
    EXPECT_GT(several_slices, 0u);
  }
}

std::vector<int> numbers_of_ranks() {
  if (testing_support::kSanitized) return {2, 3, 4};
  return {2, 3, 4, 5, 8};
}
INSTANTIATE_TEST_SUITE_P(Ranks, VectorPlans, testing::ValuesIn(numbers_of_ranks()));

// ---- what must be refused -------------------------------------------------------------------

// The plans of `right` for changed vectors; `told` says whether the verifier hears of the change.
template <class Change>
Status verify_changed(const Lowering& lowering, const PlanSet& right, bool told, Change change) {
  const std::vector<Match> matches = match_all(lowering).value();
  std::vector<CountVectors> vectors = right.vectors;
  change(vectors);
  PlanSet changed = right;
  for (size_t rank = 0; rank < changed.plans.size(); ++rank) {  // each for what it believes
    const BindRequest own{vectors[rank].longest, types::DataType::kFloat64, types::ReduceOp::kSum,
                          &vectors[rank]};
    changed.plans[rank] = bind(matches[rank], own, small_tuning(false));
  }
  if (told) changed.vectors = vectors;
  return verify_plans(changed);
}

// The count that rank 2 has in mind for what it shares with rank 0.
uint64_t& count_of_rank_2(const Lowering& lowering, std::vector<CountVectors>& vectors) {
  const bool scatters = !schedule::traits_of(lowering.algorithm->collective).output.parts;
  return (scatters ? vectors[2].input : vectors[2].output)[0];
}

// Facts: the ranks' vectors are not those of one call. Run alone, each plan would be right: a
// receiver that expects less than it is sent reads the beginning of it.
TEST(VectorPlan, RefusesRanksThatDisagree) {
  for (const Lowering& lowering : vector_lowerings(3)) {
    const PlanSet right = lower(lowering, false).value();
    for (const int change : {-1, 0, 1}) {
      const Status status = verify_changed(lowering, right, true, [&](auto& vectors) {
        count_of_rank_2(lowering, vectors) += static_cast<uint64_t>(change);
        for (CountVectors& own : vectors) own.longest += 9;  // it stays the longest
      });
      EXPECT_EQ(status.message().find(" elements for rank ") != std::string::npos, change != 0)
          << print(lowering) << ": " << status.message();
    }
  }
}

// Facts: what no count round leaves behind.
TEST(VectorPlan, RefusesVectorsThatAreNoCallsAtAll) {
  for (const Lowering& lowering : vector_lowerings(3)) {
    const PlanSet right = lower(lowering, false).value();
    const auto expect_refused = [&](const char* why, auto change) {
      PlanSet wrong = right;
      change(wrong.vectors);
      const Status status = verify_plans(wrong);
      EXPECT_NE(status.message().find(why), std::string::npos)
          << print(lowering) << ": " << status.message();
    };
    expect_refused("believes in a longest share", [](auto& vectors) { ++vectors[1].longest; });
    expect_refused("is longer than the longest", [](auto& vectors) {
      for (CountVectors& own : vectors) own.longest = 1;
    });
    expect_refused("of another length than the group",
                   [](auto& vectors) { vectors[1].output_offsets.push_back(0); });
    expect_refused("of some ranks only", [](auto& vectors) { vectors.pop_back(); });
  }
}

// Values: the vectors are right, and a plan was bound to others.
TEST(VectorPlan, RefusesPlansOfOtherCounts) {
  int refused_on_levels = 0;
  for (const Lowering& lowering : vector_lowerings(3)) {
    const PlanSet right = lower(lowering, false).value();
    const auto refused = [&](auto change) {
      return !verify_changed(lowering, right, false, change).ok();
    };
    EXPECT_FALSE(refused([](auto&) {})) << print(lowering);
    EXPECT_TRUE(refused([](auto& vectors) { vectors[1].longest *= 9; })) << print(lowering);
    EXPECT_TRUE(refused([&](auto& vectors) { --count_of_rank_2(lowering, vectors); }))
        << print(lowering);
    EXPECT_TRUE(refused([](auto& vectors) { ++vectors[2].output_offsets[0]; })) << print(lowering);
    if (!lowering.single_assignment) continue;
    // The length of a block that is forwarded comes by the size round only. Where the ranks are on
    // one level, an algorithm that follows levels forwards nothing, or only blocks without
    // elements.
    const bool is_refused = refused([](auto& vectors) {
      for (CountVectors& own : vectors) {
        for (uint64_t& length : own.scratch) length /= 2;
      }
    });
    const bool follows_levels = lowering.algorithm->loads != nullptr;
    EXPECT_TRUE(is_refused || follows_levels) << print(lowering);
    refused_on_levels += is_refused && follows_levels ? 1 : 0;
  }
  EXPECT_GT(refused_on_levels, 0);
}

}  // namespace
}  // namespace tutti::plan
