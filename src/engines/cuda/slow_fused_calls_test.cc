// A hundred thousand short calls as kernels that wait, whoever of all threads goes on.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/engines/cuda/fused_world_test.h"
#include "tests/support/sanitizer.h"

namespace tutti::engines::cuda {
namespace {

TEST(ManyFusedCalls, AreRight) {
  constexpr uint64_t kCalls = testing_support::kSanitized ? 5'000 : 100'000;
  constexpr uint64_t kCallsOfAWorld = 500;
  for (uint64_t seed = 1; seed <= kCalls / kCallsOfAWorld; ++seed) {
    testing_support::Dice dice(seed);
    const int ranks = 2 + static_cast<int>(dice.below(4));
    FusedWorld<> world({.ranks = ranks,
                        .blocks = 1 + static_cast<uint32_t>(dice.below(4)),
                        .threads = 1 + static_cast<uint32_t>(dice.below(3)),
                        .seed = seed,
                        .first_number = dice.one_in(2) ? 0 : ~0u - 250,
                        .held_up_one_in = 10 + dice.below(100)});
    add_fused_calls(world, ranks, {1, 1 + dice.below(60)});
    std::vector<uint32_t> order;
    while (order.size() < kCallsOfAWorld) {
      order.push_back(static_cast<uint32_t>(dice.below(world.size())));
    }
    ASSERT_EQ(world.run(order), "") << "seed " << seed << ", " << ranks << " ranks";
  }
}

}  // namespace
}  // namespace tutti::engines::cuda
