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

}  // namespace
}  // namespace tutti::perf
