#include "perf/collectives/crew.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "perf/collectives/error.h"
#include "perf/collectives/timed_loop.h"
#include "tests/support/sanitizer.h"

namespace tutti::perf {
namespace {

int exchange_numbers(const RankContext& context) {
  const std::vector<double> all = context.board.exchange(context.rank, context.rank * 10.0);
  if (all.size() != static_cast<size_t>(context.ranks)) return 1;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != static_cast<double>(rank) * 10) return 1;
  }
  const double samples[] = {context.rank + 0.25, context.rank + 0.5};
  const auto gathered = context.board.gather_samples(context.rank, samples);
  if (gathered.size() != all.size() || gathered[0] != std::vector{0.25, 0.5}) return 1;
  return context.board.max(context.rank, context.rank) == context.ranks - 1 ? 0 : 1;
}

int rank_1_throws(const RankContext& context) {
  context.board.barrier();  // all have joined: what follows is about ranks at work
  if (context.rank == 1) throw PerfError("on purpose");
  context.board.barrier();
  return 0;
}

bool ignores_children(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigIgn:")) continue;
    const uint64_t ignored = std::stoull(line.substr(7), nullptr, 16);
    return ((ignored >> (SIGCHLD - 1)) & 1) != 0;
  }
  return false;
}

/// The processes of a launched crew as threads that know only the id, as processes would.
int run_like_launched(const CrewShape& shape, const RankBody& body) {
  tuttiUniqueId id{};
  if (tuttiGetUniqueId(&id) != tuttiSuccess) return -1;
  const BoardOf board_of = [&](int rank) { return make_group_board(id, rank, shape.ranks()); };
  std::vector<int> results(static_cast<size_t>(shape.processes));
  {
    std::vector<std::jthread> processes;
    for (int process = 0; process < shape.processes; ++process) {
      processes.emplace_back([&, process] {
        results[static_cast<size_t>(process)] = run_process(shape, process, board_of, body);
      });
    }
  }
  return *std::max_element(results.begin(), results.end());
}

TEST(Crew, ExchangesBetweenProcessesAndThreads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer forbids threads in a child of a process that has some";
#endif
  for (const CrewShape shape : {CrewShape{3, 1}, CrewShape{1, 3}, CrewShape{2, 2}}) {
    EXPECT_EQ(run_crew(shape, exchange_numbers), 0);
    EXPECT_EQ(run_like_launched(shape, exchange_numbers), 0);
  }
}

TEST(Crew, AThrowingRankOfALaunchedProcessReleasesAllOthers) {
  testing::internal::CaptureStderr();
  const int result = run_like_launched({2, 2}, rank_1_throws);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(result, kExitLibrary) << "the others see a call of the board fail";
  EXPECT_NE(said.find("rank 1: on purpose"), std::string::npos) << said;
  for (const char* other : {"rank 0: between", "rank 2: between", "rank 3: between"}) {
    EXPECT_NE(said.find(other), std::string::npos) << said;
  }
}

TEST(Crew, ARankWithoutABoardIsAFailureThatNamesIt) {
  testing::internal::CaptureStderr();
  const BoardOf none = [](int) -> std::shared_ptr<Board> { throw PerfError("no board"); };
  EXPECT_EQ(run_process({2, 1}, 1, none, [](const RankContext&) { return 0; }), kExitFailed);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("rank 1: no board"), std::string::npos);
}

TEST(Crew, ReturnsTheGreatestResult) {
  EXPECT_EQ(run_crew({3, 1}, [](const RankContext& context) { return context.rank; }), 2);
}

TEST(Crew, AThrowingRankReleasesTheOthers) {
  for (const CrewShape shape : {CrewShape{2, 1}, CrewShape{1, 2}}) {
    testing::internal::CaptureStderr();
    const int result = run_crew(shape, rank_1_throws);
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

/// Rank 1 waits for ever, the others fail or are done.
RankBody all_but_rank_1(int result) {
  return [result](const RankContext& context) {
    context.board.barrier();
    while (context.rank == 1) pause();
    return result;
  };
}

TEST(Crew, AProcessThatDoesNotEndIsNamedAndKilled) {
  for (const auto& [result, grace] : {std::pair(3, Grace{1, 3600}), std::pair(0, Grace{3600, 1})}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_crew({3, 1, grace}, all_but_rank_1(result)), std::max(result, 1));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("rank 1 (pid "), std::string::npos) << said;
    EXPECT_NE(said.find("did not end when others had: killed"), std::string::npos) << said;
  }
}

TEST(CrewDeathTest, AThreadThatDoesNotEndIsNamedAndEndsTheProgram) {
  if (testing_support::kSanitized) GTEST_SKIP() << "a sanitizer reports the threads that are left";
  for (const auto& [result, grace] : {std::pair(3, Grace{1, 3600}), std::pair(0, Grace{3600, 1})}) {
    EXPECT_EXIT(run_crew({1, 3, grace}, all_but_rank_1(result)),
                testing::ExitedWithCode(std::max(result, 1)),
                "rank 1 did not end when others had: the program ends");
  }
}

TEST(Crew, LearnsHowItsProcessesEndWhereThatWasIgnored) {
  signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(run_crew({2, 1}, [](const RankContext& context) { return context.rank * 3; }), 3);
  signal(SIGCHLD, SIG_DFL);
}

TEST(Crew, ProcessesThatSomebodyElseWaitedForAreAFailure) {
  // SIGUSR1 makes the parent ignore its children while it waits for them.
  signal(SIGUSR1, [](int) { signal(SIGCHLD, SIG_IGN); });
  const pid_t parent = getpid();
  testing::internal::CaptureStderr();
  const int result = run_crew({2, 1}, [&](const RankContext& context) {
    if (context.rank == 0) kill(parent, SIGUSR1);
    while (!ignores_children(parent)) usleep(1000);
    return 0;
  });
  signal(SIGUSR1, SIG_DFL);
  signal(SIGCHLD, SIG_DFL);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(result, 1);
  EXPECT_NE(said.find("2 processes have ended, and not said how"), std::string::npos) << said;
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
