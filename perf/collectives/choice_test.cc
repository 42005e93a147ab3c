#include "perf/collectives/choice.h"

#include <gtest/gtest.h>

#include "perf/collectives/crew.h"

namespace tutti::perf {
namespace {

TEST(Choice, IsReadFromTheFirstLine) {
  const Choice choice = parse_choice(
      "all_reduce of 2 float on 4 ranks: ring, staged, 3 slices, over shm+tcp\n  one_shot: ...\n");
  EXPECT_EQ(choice.algorithm, "ring");
  EXPECT_EQ(choice.transports, "shm+tcp");
  EXPECT_EQ(parse_choice("something else").algorithm, "?");
}

// Against what the library writes today.
TEST(Choice, OfEveryCollectiveIsKnown) {
  const int result = run_crew({1, 2}, [](const RankContext& context) {
    const Communicator communicator(context, {});
    int missing = 0;
    for (const CollectiveTraits& traits : all_collectives()) {
      const Operation operation{traits.id, 8, tuttiFloat32, tuttiSum, 0, context.rank, 2};
      const Choice choice = choice_of(communicator, operation);
      missing += choice.algorithm == "?" || choice.transports != "loopback";
    }
    context.board.barrier();
    return missing;
  });
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace tutti::perf
