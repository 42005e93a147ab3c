#include "perf/collectives/crew.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "perf/collectives/error.h"
#include "perf/collectives/timed_loop.h"

namespace tutti::perf {
namespace {

TEST(Crew, ExchangesBetweenProcessesAndThreads) {
  for (const CrewShape shape : {CrewShape{3, 1}, CrewShape{1, 3}, CrewShape{2, 2}}) {
    const int result = run_crew(shape, [](const RankContext& context) {
      const std::vector<double> all = context.board.exchange(context.rank, context.rank * 10.0);
      if (all.size() != static_cast<size_t>(context.ranks)) return 1;
      for (size_t rank = 0; rank < all.size(); ++rank) {
        if (all[rank] != static_cast<double>(rank) * 10) return 1;
      }
      return context.board.max(context.rank, context.rank) == context.ranks - 1 ? 0 : 1;
    });
    EXPECT_EQ(result, 0);
  }
}

TEST(Crew, ReturnsTheGreatestResult) {
  EXPECT_EQ(run_crew({3, 1}, [](const RankContext& context) { return context.rank; }), 2);
}

TEST(Crew, AThrowingRankReleasesTheOthers) {
  for (const CrewShape shape : {CrewShape{2, 1}, CrewShape{1, 2}}) {
    testing::internal::CaptureStderr();
    const int result = run_crew(shape, [](const RankContext& context) -> int {
      if (context.rank == 1) throw PerfError("on purpose");
      context.board.barrier();
      return 0;
    });
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(result, 1);
    EXPECT_NE(said.find("rank 1: on purpose"), std::string::npos) << said;
  }
}

TEST(Crew, ADeadRankIsReportedWithItsSignal) {
  testing::internal::CaptureStderr();
  const int result = run_crew({2, 1}, [](const RankContext& context) -> int {
    if (context.rank == 1) kill(getpid(), SIGKILL);
    context.board.barrier();
    return 0;
  });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(result, 1);
  EXPECT_NE(said.find("rank 1 (pid"), std::string::npos) << said;
  EXPECT_NE(said.find("signal 9 (Killed)"), std::string::npos) << said;
}

TEST(TimedLoop, OnlyASteppedLoopCallsBeforeItsSteps) {
  for (const bool stepped : {false, true}) {
    const int result = run_crew({1, 1}, [&](const RankContext& context) {
      std::vector<size_t> order;
      LoopShape shape{2, stepped};
      shape.before_step = [&](size_t i) { order.push_back(10 + i); };
      timed_loop(
          context, shape, [&](size_t i) { order.push_back(i); }, [] {});
      const auto free = std::vector<size_t>{0, 1};
      const auto steps = std::vector<size_t>{10, 0, 11, 1};
      return order == (stepped ? steps : free) ? 0 : 1;
    });
    EXPECT_EQ(result, 0);
  }
}

}  // namespace
}  // namespace tutti::perf
