// Short calls as one kernel: the programs that FusedMachine makes of plans are right, whoever of
// all threads of all ranks goes on, and each rule that makes them so is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/engines/cuda/fused_world_test.h"

namespace tutti::engines::cuda {
namespace {

using schedule::Collective;

std::vector<uint32_t> random_order(size_t calls, uint32_t graphs, uint64_t seed) {
  testing_support::Dice dice(seed);
  std::vector<uint32_t> order;
  for (size_t i = 0; i < calls; ++i) order.push_back(static_cast<uint32_t>(dice.below(graphs)));
  return order;
}

class FusedCalls : public testing::TestWithParam<int> {};

TEST_P(FusedCalls, AreRightWhoeverGoesOn) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    FusedWorld<> world({.ranks = GetParam(), .seed = seed});
    add_fused_calls(world, GetParam(), {1, 7, 40});
    EXPECT_EQ(world.run(random_order(60, world.size(), seed)), "") << "seed " << seed;
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, FusedCalls, testing::Values(2, 3, 4, 8));

TEST(FusedCallsAlone, AreRightWhereNumbersBeginAnew) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    FusedWorld<> world({.ranks = 3, .seed = seed, .first_number = ~0u - 9});
    add_fused_calls(world, 3, {1, 40});
    EXPECT_EQ(world.run(random_order(40, world.size(), seed)), "") << "seed " << seed;
  }
}

TEST(FusedCallsAlone, AreRightWhereGridsDiffer) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    FusedWorld<> world({.ranks = 3, .blocks = 4, .grids_differ = true, .seed = seed});
    add_fused_calls(world, 3, {1, 40});
    EXPECT_EQ(world.run(random_order(60, world.size(), seed)), "") << "seed " << seed;
  }
}

/// A long call, then as many that are short until its number comes again.
template <class World>
std::string run_until_a_number_comes_again(World& world) {
  const Status added = [&] {
    Status status = world.add(FusedCase::make({Collective::kAllGather, "direct", 2, 30}));
    if (!status.ok()) return status;
    return world.add(FusedCase::make({Collective::kAllGather, "direct", 2, 2}));
  }();
  if (!added.ok()) return std::string(added.message());
  if (std::string wrong = world.run({0, 0}); !wrong.empty()) return wrong;  // 2 and 3
  world.jump_to(~0u - 4);
  return world.run({1, 1, 1, 1, 0, 0});
}

TEST(FusedCallsAlone, AreRightWhereANumberComesAgain) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FusedWorld<> world({.seed = seed});
    EXPECT_EQ(run_until_a_number_comes_again(world), "") << "seed " << seed;
  }
}

/// Whether one of so many seeds shows that the world is wrong.
template <class World, class Run>
bool is_found(int ranks, Run run) {
  constexpr uint64_t kMostSeeds = 60;
  for (uint64_t seed = 1; seed <= kMostSeeds; ++seed) {
    World world({.ranks = ranks, .seed = seed});
    if (!run(world, seed).empty()) return true;
  }
  return false;
}

template <class World>
bool is_found_in_random_calls() {
  return is_found<World>(3, [](World& world, uint64_t seed) {
    add_fused_calls(world, 3, {1, 40});
    return world.run(random_order(40, world.size(), seed));
  });
}

struct NumberFirst : testing_support::SoundLines {
  static constexpr bool number_first = true;
};
struct LooksOnce : testing_support::SoundLines {
  static constexpr bool looks_once = true;
};
struct OneNumberALine : SoundFusedRules {
  static constexpr bool looks_at_both = false;
};
struct NoCredit : SoundFusedRules {
  static constexpr bool credit = false;
};
struct NumbersAreUsedAgain : SoundFusedRules {
  static constexpr bool rises = false;
};
struct NothingIsCleared : SoundFusedRules {
  static constexpr bool clears = false;
};

struct EachBlockForItself : SoundFusedRules {
  static constexpr bool speaks_for_others = false;
};

struct NamesTheCallBefore : SoundFusedRules {
  static constexpr bool names_its_call = false;
};
struct OneWordForAllBlocks : SoundFusedRules {
  static constexpr bool tells_of_blocks = false;
};

/// One block waits for a rank that does not come, and a later one has nothing to wait for. The word
/// of the first must stay when the other one ends.
template <class Rules>
bool tells_of_the_block_that_waits(uint64_t seed) {
  FusedWorld<Rules> world({.ranks = 2, .seed = seed, .last_block_is_late = true});
  const Status added = world.add(FusedCase::make({Collective::kAllGather, "direct", 2, 2}));
  world.kill(1);
  const bool stands_still = added.ok() && !world.run({0}).empty();
  return stands_still && (world.word(0, kFusedWaiting) & ~0u) == 2;
}

TEST(FusedFaults, OfAWordForAllBlocksAreFound) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    EXPECT_TRUE(tells_of_the_block_that_waits<SoundFusedRules>(seed)) << "seed " << seed;
    EXPECT_FALSE(tells_of_the_block_that_waits<OneWordForAllBlocks>(seed)) << "seed " << seed;
  }
}

TEST(FusedFaults, OfBlocksThatSatOutAreFound) {
  bool found = false;
  for (uint64_t seed = 1; seed <= 20 && !found; ++seed) {
    FusedWorld<EachBlockForItself> world(
        {.ranks = 3, .blocks = 4, .grids_differ = true, .seed = seed});
    add_fused_calls(world, 3, {1, 40});
    found = !world.run(random_order(60, world.size(), seed)).empty();
  }
  EXPECT_TRUE(found);
}

TEST(FusedFaults, AreFound) {
  EXPECT_TRUE((is_found_in_random_calls<FusedWorld<SoundFusedRules, NumberFirst>>()));
  EXPECT_TRUE((is_found_in_random_calls<FusedWorld<SoundFusedRules, LooksOnce>>()));
  EXPECT_TRUE((is_found_in_random_calls<FusedWorld<OneNumberALine>>()));
  EXPECT_TRUE((is_found_in_random_calls<FusedWorld<NumbersAreUsedAgain>>()));
  EXPECT_TRUE((is_found_in_random_calls<FusedWorld<NamesTheCallBefore>>()));
}

TEST(FusedFaults, OfARootThatRunsAheadAreFound) {
  const auto run = [](auto& world, uint64_t) {
    auto call = FusedCase::make({Collective::kBroadcast, "publish_once", 3, 40});
    const Status added = world.add(std::move(call));
    return added.ok() ? world.run(std::vector<uint32_t>(20, 0)) : std::string(added.message());
  };
  EXPECT_TRUE(is_found<FusedWorld<NoCredit>>(3, run));
  EXPECT_FALSE(is_found<FusedWorld<>>(3, run));
}

TEST(FusedFaults, OfLinesOfTheRoundBeforeAreFound) {
  const auto run = [](auto& world, uint64_t) { return run_until_a_number_comes_again(world); };
  EXPECT_TRUE(is_found<FusedWorld<NothingIsCleared>>(2, run));
}

TEST(FusedCallsAlone, EndAtTheirDeadlineAndNameThePeer) {
  FusedWorld<> world({.ranks = 3});
  add_fused_calls(world, 3, {40});
  world.ignore_outputs();
  world.tell(1000, 7);
  world.kill(2);
  EXPECT_EQ(world.run({0}), "");
  for (const size_t rank : {0, 1}) {
    EXPECT_EQ(world.word(rank, kFusedExpired) & ~0u, 3u);
    for (const uint64_t block : {0, 1}) {
      EXPECT_EQ(world.word(rank, kFusedWaiting + 8 * block), 0u);
      EXPECT_EQ(world.word(rank, kFusedFinished + 8 * block), 7u);
    }
  }
}

TEST(FusedCallsAlone, EndWhereTheHostSaysSo) {
  FusedWorld<> world({.ranks = 2});
  add_fused_calls(world, 2, {40});
  world.ignore_outputs();
  world.kill(1);
  world.stop(0);
  EXPECT_EQ(world.run({0, 0, 0, 0, 0}), "");
  EXPECT_EQ(world.word(0, kFusedExpired), 0u);
}

TEST(FusedCallsAlone, WaitWithoutABoundForAPeerThatMayCome) {
  FusedWorld<> world({.ranks = 2});
  add_fused_calls(world, 2, {40});
  world.kill(1);
  EXPECT_THAT(world.run({0}), testing::HasSubstr("stands still"));
  EXPECT_EQ(world.word(0, kFusedWaiting) & ~0u, 2u);
}

}  // namespace
}  // namespace tutti::engines::cuda
