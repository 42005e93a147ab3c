// Every registered algorithm, proved: the tests name none of them, except where they pin what it
// promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "generated/test_paths.h"
#include "src/plan/plan.h"
#include "src/registry/algorithms.h"
#include "src/schedule/single_assignment.h"
#include "src/schedule/text.h"
#include "src/schedule/verify.h"
#include "tests/support/sanitizer.h"
#include "tools/verifier/trees.h"

namespace tutti::algorithms {
namespace {

using namespace schedule;

constexpr int kMaxRanks = testing_support::kSanitized ? 17 : 33;

std::string full_name(const Algorithm& algorithm) {
  return std::string(name_of(algorithm.collective)) + "_" + std::string(algorithm.name);
}

Result<Verdict> prove(const Algorithm& algorithm, const Parameters& p, Placement placement) {
  const Cost cost = algorithm.cost(p);
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < p.ranks; ++rank) schedules.push_back(algorithm.schedule(p, rank));
  return verify(algorithm.shape(p), schedules, {.placement = placement, .declared = &cost});
}

std::string describe(const Parameters& p, Placement placement) {
  return std::to_string(p.ranks) + " ranks, root " + std::to_string(p.root) + ", " +
         std::to_string(p.lanes) + " lanes" + (p.fold == Fold::kTree ? ", tree" : "") +
         (placement == Placement::kInPlace ? ", in place" : "");
}

// All parameters that make a difference: the extreme and two other numbers of lanes, three roots,
// both folds.
std::vector<Parameters> parameters_of(const Algorithm& algorithm, int ranks) {
  const std::set<uint16_t> lanes = {1, std::min<uint16_t>(2, algorithm.max_lanes),
                                    std::min<uint16_t>(3, algorithm.max_lanes),
                                    algorithm.max_lanes};
  std::set<int> roots = {0};
  if (traits_of(algorithm.collective).rooted()) roots = {0, ranks / 2, ranks - 1};
  std::vector<Parameters> all;
  for (uint16_t lane : lanes) {
    for (int root : roots) {
      for (Fold fold : {Fold::kList, Fold::kTree}) {
        all.push_back({.ranks = ranks, .root = root, .lanes = lane, .fold = fold});
      }
    }
  }
  return all;
}

class EveryAlgorithm : public testing::TestWithParam<size_t> {
 protected:
  const Algorithm& algorithm() const { return registry::algorithms()[GetParam()]; }
};

TEST_P(EveryAlgorithm, IsProvedForEveryPlacementLanesRanksAndRoot) {
  for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
    for (const Parameters& p : parameters_of(algorithm(), ranks)) {
      for (Placement placement : {Placement::kSeparate, Placement::kInPlace}) {
        if (placement == Placement::kInPlace && !algorithm().in_place) continue;
        const Result<Verdict> verdict = prove(algorithm(), p, placement);
        ASSERT_TRUE(verdict.ok()) << describe(p, placement) << ": " << verdict.status().message();
        EXPECT_TRUE(verdict.value().agrees)
            << "ranks get different bits: " << describe(p, placement);
        EXPECT_LE(verdict.value().least_credit, 1u) << describe(p, placement);
      }
    }
  }
}

TEST_P(EveryAlgorithm, IsAPureFunction) {
  for (const Parameters& p : parameters_of(algorithm(), 7)) {
    EXPECT_TRUE(algorithm().shape(p) == algorithm().shape(p));
    for (int rank = 0; rank < p.ranks; ++rank) {
      EXPECT_TRUE(same_program(algorithm().schedule(p, rank), algorithm().schedule(p, rank)));
    }
  }
}

// Of two ranks every order is.
TEST_P(EveryAlgorithm, DeclaresWhetherItsOrderIsCanonical) {
  if (!reduces(algorithm().collective)) {
    EXPECT_FALSE(algorithm().canonical({}));
    return;
  }
  bool canonical = true, declared = true;
  for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
    for (const Parameters& p : parameters_of(algorithm(), ranks)) {
      if (p.fold != Fold::kTree) continue;
      const Result<Verdict> verdict = prove(algorithm(), p, Placement::kSeparate);
      ASSERT_TRUE(verdict.ok()) << verdict.status().message();
      EXPECT_TRUE(verdict.value().canonical || ranks > 2);
      canonical = canonical && verdict.value().canonical;
      declared = declared && algorithm().canonical(p);
      EXPECT_LE(algorithm().canonical(p), verdict.value().canonical) << describe(p, {});
    }
  }
  EXPECT_EQ(canonical, declared);
}

// All parameters that make a difference, with a tree of nodes too where it makes one.
std::vector<Parameters> with_trees(const Algorithm& algorithm, int ranks) {
  std::vector<Parameters> all = parameters_of(algorithm, ranks);
  if (algorithm.loads == nullptr) return all;
  std::vector<Parameters> more = parameters_of(algorithm, ranks);
  for (Parameters& p : more) p.tree = RandomTrees(ranks).make(ranks, ranks, 4);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// V-collectives need two facts: whether a share's blocks keep to themselves, and which ranks
// forward.
TEST_P(EveryAlgorithm, DeclaresWhatUnequalCountsNeed) {
  const Collective collective = algorithm().collective;
  if (collective != Collective::kAllGather && collective != Collective::kReduceScatter &&
      collective != Collective::kAllToAll) {
    return;
  }
  bool forwards = false, needs_equal_counts = false;
  for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
    for (const Parameters& p : with_trees(algorithm(), ranks)) {
      const Result<Verdict> verdict = prove(algorithm(), p, Placement::kSeparate);
      ASSERT_TRUE(verdict.ok()) << verdict.status().message();
      forwards = forwards || verdict.value().forwards;
      needs_equal_counts = needs_equal_counts || verdict.value().needs_equal_counts;
    }
  }
  EXPECT_EQ(forwards, algorithm().forwards);
  EXPECT_EQ(needs_equal_counts, algorithm().needs_equal_counts);
}

// Checks the form that runs after a size round: every scratch block is written once, and nothing
// else has changed.
TEST_P(EveryAlgorithm, IsRightWithSingleAssignment) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const Parameters& p : with_trees(algorithm(), ranks)) {
      std::vector<Schedule> schedules;
      for (int rank = 0; rank < p.ranks; ++rank) {
        schedules.push_back(single_assignment(algorithm().schedule(p, rank)));
        const Schedule& schedule = schedules.back();
        std::vector<int> writes(schedule.scratch.size(), 0);
        for (const Step& step : schedule.steps) {
          if (step.kind != StepKind::kMove) continue;
          for (Block block : schedule.blocks_of(step)) {
            if (block.space() == Space::kScratch) ++writes[block.index()];
          }
        }
        for (int times : writes) EXPECT_EQ(times, 1);
      }
      for (Placement placement : {Placement::kSeparate, Placement::kInPlace}) {
        if (placement == Placement::kInPlace && !algorithm().in_place) continue;
        const auto verdict = verify(algorithm().shape(p), schedules, {.placement = placement});
        ASSERT_TRUE(verdict.ok()) << describe(p, placement) << ": " << verdict.status().message();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryAlgorithm,
                         testing::Range<size_t>(0, registry::algorithms().size()),
                         [](const testing::TestParamInfo<size_t>& info) {
                           return full_name(registry::algorithms()[info.param]);
                         });

TEST(Algorithms, AreFoundByTheirUniqueNamesAndDescribeThemselves) {
  std::set<std::string> names;
  for (const Algorithm& algorithm : registry::algorithms()) {
    EXPECT_TRUE(names.insert(full_name(algorithm)).second) << full_name(algorithm);
    EXPECT_EQ(registry::find(algorithm.collective, algorithm.name), &algorithm);
    EXPECT_FALSE(algorithm.name.empty() || algorithm.summary.empty() || algorithm.wins.empty() ||
                 algorithm.source.empty())
        << full_name(algorithm);
    EXPECT_GE(algorithm.max_lanes, 1) << full_name(algorithm);
    EXPECT_LE(algorithm.max_lanes, plan::kMaxLanes) << full_name(algorithm);
  }
  EXPECT_EQ(registry::find(Collective::kBarrier, "no such name"), nullptr);
}

TEST(Algorithms, ServeEveryCollective) {
  for (int collective = 0; collective < kCollectives; ++collective) {
    const auto serves = [&](const Algorithm& algorithm) {
      return static_cast<int>(algorithm.collective) == collective;
    };
    EXPECT_TRUE(std::ranges::any_of(registry::algorithms(), serves)) << collective;
  }
}

// Deterministic mode has candidates for small and for large counts, whatever the number of ranks.
TEST(Algorithms, ThatPromiseTheCanonicalOrderKeepIt) {
  const std::pair<Collective, const char*> kCanonical[] = {
      {Collective::kAllReduce, "one_shot"},
      {Collective::kAllReduce, "two_shot"},
      {Collective::kAllReduce, "recursive_doubling"},
      {Collective::kAllReduce, "halving_doubling"},
      {Collective::kReduceScatter, "direct"},
      {Collective::kReduceScatter, "recursive_halving"},
      {Collective::kReduce, "direct"},
      {Collective::kReduce, "binomial"},
      {Collective::kReduce, "two_shot"},
  };
  for (const auto& [collective, name] : kCanonical) {
    const Algorithm* algorithm = registry::find(collective, name);
    ASSERT_NE(algorithm, nullptr) << name;
    for (int ranks = 1; ranks <= 64; ++ranks) {
      const Parameters p{.ranks = ranks, .root = ranks / 3, .fold = Fold::kTree};
      const Result<Verdict> verdict = prove(*algorithm, p, Placement::kSeparate);
      ASSERT_TRUE(verdict.ok()) << verdict.status().message();
      EXPECT_TRUE(verdict.value().canonical) << name << ", " << ranks << " ranks";
    }
  }
}

// Costs beyond what the verifier can afford, against what the papers promise.
TEST(Algorithms, CostWhatTheirSourcesSayAtScale) {
  const Parameters p{.ranks = 100'000};
  const auto cost_of = [&](const char* name) {
    return registry::find(Collective::kAllReduce, name)->cost(p);
  };
  EXPECT_EQ(cost_of("circulant").depth, 2u * 17);
  EXPECT_EQ(cost_of("circulant").bytes, Fraction::of(2 * 99'999, 100'000));
  EXPECT_EQ(cost_of("ring").bytes, Fraction::of(2 * 99'999, 100'000));
  EXPECT_EQ(cost_of("double_binary_tree").depth, 2u * 16);
  EXPECT_EQ(cost_of("double_binary_tree").bytes, Fraction::of(2, 1));
  EXPECT_EQ(cost_of("recursive_doubling").depth, 17u);
  EXPECT_EQ(cost_of("halving_doubling").depth, 2u * 17);
  const Parameters power{.ranks = 1 << 16};
  EXPECT_EQ(registry::find(Collective::kAllReduce, "halving_doubling")->cost(power).bytes,
            Fraction::of(2 * 0xffff, 1 << 16));
}

std::string run(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> buffer;
  while (const size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) {
    text.append(buffer.data(), size);
  }
  return text;
}

TEST(Algorithms, AreDocumentedAsTheyAre) {
  const std::string program = TUTTI_BINARY_DIR "/bin/tutti";
  if (!std::ifstream(program)) GTEST_SKIP() << program << " is not built";
  std::stringstream committed;
  committed << std::ifstream(TUTTI_SOURCE_DIR "/docs/algorithms.md").rdbuf();
  EXPECT_EQ(run("'" + program + "' algorithms --markdown"), committed.str())
      << "run: tutti algorithms --markdown > docs/algorithms.md";
}

}  // namespace
}  // namespace tutti::algorithms
