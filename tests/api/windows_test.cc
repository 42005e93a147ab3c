// Windows: put, get and signals between threads, between processes, and what is refused.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"
#include "tests/support/sanitizer.h"
#include "tests/support/single_copies.h"
#include "tests/support/subprocess.h"

namespace tutti::api_test {
namespace {

void expect_right(const std::vector<std::string>& arguments) {
  const auto outcome = testing_support::run_program("windows", arguments, 240);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(Windows, BetweenThreads) { expect_right({"--threads", "1"}); }
TEST(Windows, BetweenProcesses) { expect_right({"--threads", "0"}); }
TEST(Windows, OverTcp) { expect_right({"--network", "tcp"}); }
TEST(Windows, OnTwoHosts) { expect_right({"--network", "mixed"}); }

// Sizes, many origins, passive targets, deregistered parts.
TEST(OneSided, Threads) {
  const auto outcome =
      testing_support::run_program("one_sided", {"--threads", "1", "--ranks", "4"}, 360);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

void expect_one_sided(const std::string& network, const std::string& ranks) {
  const auto outcome =
      testing_support::run_program("one_sided", {"--network", network, "--ranks", ranks}, 360);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(OneSided, OneHost) { expect_one_sided("default", "3"); }
TEST(OneSided, TwoRanksOverTcp) { expect_one_sided("tcp", "2"); }
TEST(OneSided, SixRanksOverTcp) { expect_one_sided("tcp", "6"); }
TEST(OneSided, FiveRanksOnTwoHosts) { expect_one_sided("mixed", "5"); }

// Memory of every kind and length, random puts and gets, against a reference.
int mixed_windows(const std::vector<std::string>& arguments, std::string& output) {
  const auto outcome = testing_support::run_program("mixed_windows", arguments, 360);
  output = outcome.output;
  return outcome.exit_code;
}

struct Mix {
  const char* name;
  std::vector<std::string> arguments;
  bool threads = false;
  bool copies = true;  // between processes
};

class MixedWindows : public testing::TestWithParam<Mix> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    if (GetParam().threads) GTEST_SKIP() << "no direct access under the thread sanitizer";
#endif
    if (GetParam().copies && !testing_support::siblings_may_copy()) {
      GTEST_SKIP() << testing_support::kNoSingleCopies;
    }
  }
};

TEST_P(MixedWindows, AreAsTheReferenceSays) {
  const int seeds = testing_support::kSanitized ? 1 : 3;
  for (int seed = 1; seed <= seeds; ++seed) {
    std::vector<std::string> arguments = GetParam().arguments;
    arguments.insert(arguments.end(), {"--seed", std::to_string(seed)});
    std::string output;
    EXPECT_EQ(mixed_windows(arguments, output), 0) << "seed " << seed << ": " << output;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Every, MixedWindows,
    testing::Values(
        Mix{"TwoProcesses", {"--ranks", "2", "--processes", "2"}},
        Mix{"FourProcesses", {"--ranks", "4", "--processes", "4"}},
        Mix{"Threads", {"--ranks", "4", "--processes", "1"}, true, false},
        Mix{"ProcessesOfThreads", {"--ranks", "4", "--processes", "2"}, true},
        Mix{"Tcp", {"--ranks", "3", "--processes", "3", "--network", "tcp"}, false, false},
        Mix{"TwoHosts", {"--ranks", "4", "--processes", "4", "--network", "mixed"}},
        Mix{"TwoHostsOfThreads", {"--ranks", "6", "--processes", "4", "--network", "mixed"}, true},
        Mix{"Refused", {"--ranks", "4", "--processes", "4", "--refuse", "1"}, false, false},
        Mix{"RefusedOnTwoHosts",
            {"--ranks", "5", "--processes", "5", "--network", "mixed", "--refuse", "1"},
            false,
            false}),
    [](const auto& info) { return info.param.name; });

TEST(MixedWindowsChecker, FindsAWrongByte) {
  if (!testing_support::siblings_may_copy()) GTEST_SKIP() << testing_support::kNoSingleCopies;
  std::string output;
  EXPECT_EQ(mixed_windows({"--ranks", "2", "--processes", "2", "--spoil", "1"}, output), 1);
  EXPECT_NE(output.find("not as it was put"), std::string::npos) << output;
}

// Threads of one process need no memory from tuttiMemAlloc, and parts may differ in size.
TEST(Windows, OrdinaryMemoryOfThreads) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    std::vector<int> part(rank == 0 ? 0 : 100, 0);
    tuttiWindow_t window = nullptr;
    EXPECT_OK(tuttiCommWindowRegister(comm, part.data(), part.size() * 4, &window, 0), comm);
    const int value = 7;
    if (rank == 0) {
      EXPECT_OK(tuttiPutSignal(&value, 4, 1, window, 99 * 4, 0, tuttiBlocking()), comm);
    } else {
      EXPECT_OK(tuttiWaitSignal(0, window, 0, 1, tuttiBlocking()), comm);
      EXPECT_EQ(part[99], 7);
      EXPECT_REFUSED(tuttiPut(&value, 1, 0, window, 0, tuttiBlocking()), tuttiInvalidArgument,
                     comm);
    }
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
    EXPECT_OK(tuttiCommWindowDeregister(comm, window), comm);
  });
}

TEST(Windows, WhatIsRefused) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    char memory[64] = {}, other = 0;
    const tuttiStream_t stream = tuttiBlocking();
    tuttiWindow_t window = nullptr;
    EXPECT_REFUSED(tuttiCommWindowRegister(comm, memory, 64, nullptr, 0), tuttiInvalidArgument,
                   comm);
    EXPECT_REFUSED(tuttiCommWindowRegister(comm, memory, 64, &window, 8), tuttiInvalidArgument,
                   comm);
    EXPECT_REFUSED(tuttiCommWindowRegister(comm, nullptr, 64, &window, 0), tuttiInvalidArgument,
                   comm);
    EXPECT_REFUSED(tuttiCommWindowRegister(comm, memory, SIZE_MAX, &window, 0),
                   tuttiInvalidArgument, comm);
    void* shared = nullptr;
    EXPECT_EQ(tuttiMemAlloc(&shared, 4096), tuttiSuccess);
    EXPECT_REFUSED(tuttiCommWindowRegister(comm, shared, SIZE_MAX, &window, 0),
                   tuttiInvalidArgument, comm);
    EXPECT_EQ(tuttiMemFree(shared), tuttiSuccess);
    EXPECT_EQ(window, nullptr);
    EXPECT_EQ(tuttiPut(&other, 1, 0, nullptr, 0, stream), tuttiInvalidArgument);
    EXPECT_OK(tuttiCommWindowRegister(comm, memory, 64, &window, 0), comm);
    EXPECT_OK(tuttiPut(&other, 1, 0, window, 63, stream), comm);
    EXPECT_OK(tuttiPut(nullptr, 0, 0, window, 64, stream), comm);
    EXPECT_REFUSED(tuttiPut(&other, 1, 0, window, 64, stream), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiGet(&other, SIZE_MAX, 0, window, 1, stream), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiPut(nullptr, 1, 0, window, 0, stream), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiPut(&other, 1, 1, window, 0, stream), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiPut(&other, 1, -1, window, 0, stream), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiSignal(0, window, TUTTI_WINDOW_SIGNALS, stream), tuttiInvalidArgument,
                   comm);
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_OK(tuttiPut(&other, 1, 0, window, 0, stream), comm);
    EXPECT_REFUSED(tuttiCommWindowDeregister(comm, window), tuttiInvalidUsage, comm);
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    EXPECT_OK(tuttiCommWindowDeregister(comm, window), comm);
    EXPECT_REFUSED(tuttiSignal(0, window, 0, stream), tuttiInvalidUsage, comm);
    EXPECT_REFUSED(tuttiCommWindowDeregister(comm, window), tuttiInvalidUsage, comm);
  });
}

// A rank that cannot take part tells the others, who would wait for it.
TEST(Windows, ARefusedPartIsEverybodysError) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, 60'000);
    char memory[64];
    tuttiWindow_t window = nullptr;
    const tuttiResult_t result =
        tuttiCommWindowRegister(comm, memory, 64, &window, rank == 0 ? 1 : 0);
    EXPECT_EQ(result, rank == 0 ? tuttiInvalidArgument : tuttiInvalidUsage) << message_of(comm);
    EXPECT_EQ(window, nullptr);
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
  });
}

TEST(Windows, ARankWithoutAPlaceForItsHandleIsEverybodysError) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, 60'000);
    char memory[64];
    tuttiWindow_t window = nullptr;
    const tuttiResult_t result =
        tuttiCommWindowRegister(comm, memory, 64, rank == 0 ? nullptr : &window, 0);
    EXPECT_EQ(result, rank == 0 ? tuttiInvalidArgument : tuttiInvalidUsage) << message_of(comm);
    EXPECT_EQ(window, nullptr);
    EXPECT_OK(tuttiCommWindowRegister(comm, memory, 64, &window, 0), comm);
    EXPECT_OK(tuttiCommWindowDeregister(comm, window), comm);
  });
}

// A thread aborts and frees its part while its peers put there, each to a place of its own.
TEST(Windows, WhoAbortsIsPutToNoMore) {
  run_ranks(3, [](tuttiComm_t& comm, int rank) {
    std::vector<char> part(1 << 17), data(part.size() / 2, 1);
    const size_t place = rank == 2 ? data.size() : 0;
    tuttiWindow_t window = nullptr;
    EXPECT_OK(tuttiCommWindowRegister(comm, part.data(), part.size(), &window, 0), comm);
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
    if (rank == 0) {
      EXPECT_OK(tuttiCommAbort(comm), comm);
      comm = nullptr;
      std::vector<char>().swap(part);
      return;
    }
    tuttiResult_t result = tuttiSuccess;
    while (result == tuttiSuccess) {
      result = tuttiPutSignal(data.data(), data.size(), 0, window, place, 0, tuttiBlocking());
    }
    EXPECT_TRUE(result == tuttiInvalidUsage || result == tuttiRemoteError) << message_of(comm);
    // Until both have seen it, neither ends.
    const tuttiResult_t barrier = tuttiBarrier(comm, tuttiBlocking());
    EXPECT_EQ(barrier, tuttiRemoteError) << message_of(comm);
    EXPECT_OK(tuttiCommWindowDeregister(comm, window), comm);
  });
}

TEST(Windows, AWaitInVainEndsAtItsDeadline) {
  std::atomic<bool> over{false};
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    char memory[64];
    tuttiWindow_t window = nullptr;
    EXPECT_OK(tuttiCommWindowRegister(comm, memory, 64, &window, 0), comm);
    if (rank == 0) {
      set_deadline(comm, 50);
      EXPECT_REFUSED(tuttiWaitSignal(1, window, 0, 1, tuttiBlocking()), tuttiTimeout, comm);
      EXPECT_NE(message_of(comm).find("rank 1"), std::string::npos) << message_of(comm);
      over.store(true);
    }
    while (!over.load()) std::this_thread::yield();
  });
}

}  // namespace
}  // namespace tutti::api_test
