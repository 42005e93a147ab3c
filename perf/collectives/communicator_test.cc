#include "perf/collectives/communicator.h"

#include <gtest/gtest.h>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

ExitCode exit_code_of(const Communicator& communicator, tuttiResult_t result) {
  try {
    communicator.check(result, "a call");
  } catch (const PerfError& error) {
    return error.exit_code;
  }
  return kExitOk;
}

TEST(Communicator, ADeadlineIsToldFromOtherFailures) {
  const int wrong = run_crew({1, 1}, [](const RankContext& context) {
    const Communicator communicator(context, {});
    return (exit_code_of(communicator, tuttiSuccess) != kExitOk) +
           (exit_code_of(communicator, tuttiTimeout) != kExitTimeout) +
           (exit_code_of(communicator, tuttiRemoteError) != kExitLibrary);
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Communicator, AWrongCallNamesItself) {
  testing::internal::CaptureStderr();
  const int result = run_crew({1, 1}, [](const RankContext& context) {
    const Communicator communicator(context, {});
    communicator.check(tuttiInvalidArgument, "tuttiAllReduce");
    return 0;
  });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(result, kExitLibrary);
  EXPECT_NE(said.find("rank 0: tuttiAllReduce: "), std::string::npos) << said;
}

TEST(Choice, IsReadFromTheLineThatTellsIt) {
  const Choice choice = parse_choice(
      "all_reduce of 2 float on 4 ranks: ring, staged, 3 slices, over shm+tcp\n  one_shot: ...\n");
  EXPECT_EQ(choice.algorithm, "ring");
  EXPECT_EQ(choice.transports, "shm+tcp");
  const Choice launched = parse_choice(
      "rank 0 of 2 by torchrun; met by TUTTI_ID; WITHOUT A KEY\n"
      "all_reduce of 2 float on 2 ranks: one_shot, staged, 1 slice, over tcp\n  ring: ...\n");
  EXPECT_EQ(launched.algorithm, "one_shot");
  EXPECT_EQ(launched.transports, "tcp");
  EXPECT_EQ(parse_choice("something else\n").algorithm, "?");
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
