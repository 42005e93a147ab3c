// Is what tests repeat because the machine stood still repeated then, and only then?
#include "tests/support/metronome.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string>

#include "tests/support/team.h"

namespace tutti::testing_support {
namespace {

constexpr uint64_t kStopNs = 400'000'000;

/// As if its processor were given no time, or the kernel came to nothing.
void stop(pid_t process) {
  kill(process, SIGSTOP);
  sleep_ns(kStopNs);
  kill(process, SIGCONT);
}

void stop_one_processor(const Metronome& metronome) { stop(metronome.processes().front()); }

TEST(Metronome, SeesThatTheKernelStoodStill) {
  const Metronome metronome;
  ASSERT_GE(metronome.processes().size(), 2u);
  stop(metronome.processes().back());
  EXPECT_GE(metronome.stood_still_ns(), kStopNs * 3 / 4);
}

TEST(Metronome, SeesThatAProcessorStoodStill) {
  const Metronome metronome;
  ASSERT_FALSE(metronome.processes().empty());
  stop_one_processor(metronome);
  EXPECT_GE(metronome.stood_still_ns(), kStopNs * 3 / 4);
  sleep_ns(kStopNs);
  EXPECT_GE(metronome.stood_still_ns(), kStopNs * 3 / 4) << "it is not forgotten";
}

TEST(Metronome, WhatFailsThenIsRepeated) {
  int attempts = 0;
  EXPECT_TRUE(succeeds_where_the_machine_runs([&](const Metronome& metronome) {
    if (++attempts == 1) stop_one_processor(metronome);
    return attempts > 1;
  }));
  EXPECT_EQ(attempts, 2);
}

TEST(Metronome, WhatFailsAlwaysIsAFailure) {
  int attempts = 0;
  EXPECT_FALSE(succeeds_where_the_machine_runs([&](const Metronome& metronome) {
    ++attempts;
    stop_one_processor(metronome);
    return false;
  }));
  EXPECT_GT(attempts, 1);
}

TEST(Metronome, ATeamThatFailsThenRunsAgain) {
  void* memory =
      mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& runs = *new (memory) std::atomic<int>(0);
  const pid_t watchdog = getpid();
  const auto result = run_team(
      TeamShape::processes(1),
      [&](Member& member) {
        if (runs.fetch_add(1) > 0) return;
        kill(watchdog, SIGSTOP);
        sleep_ns(Pulse::kLongNs * 3 / 2);
        member.fail("late");
        kill(watchdog, SIGCONT);
      },
      [](uint64_t) { return std::string("it"); }, 60'000'000'000);
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_EQ(runs.load(), 2);
  munmap(memory, sizeof(int));
}

// The least of many, as this machine may stand still at any time.
TEST(Metronome, AFailureOfAMachineThatRunsIsNotRepeated) {
  int least = 100;
  for (int i = 0; i < 20 && least > 1; ++i) {
    int attempts = 0;
    EXPECT_FALSE(succeeds_where_the_machine_runs([&](const Metronome&) {
      ++attempts;
      return false;
    }));
    least = std::min(least, attempts);
  }
  EXPECT_EQ(least, 1);
}

}  // namespace
}  // namespace tutti::testing_support
