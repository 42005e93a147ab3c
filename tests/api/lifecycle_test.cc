// How communicators begin and end: configurations, one thread with several ranks, not blocking.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/api/crowd.h"
#include "tests/support/no_threads.h"

namespace tutti::api_test {
namespace {

constexpr auto kHang = std::chrono::seconds(60);

tuttiUniqueId new_id() {
  tuttiUniqueId id;
  EXPECT_EQ(tuttiGetUniqueId(&id), tuttiSuccess) << message_of(nullptr);
  return id;
}

tuttiConfig_t nonblocking() {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

void expect_sums(const std::vector<tuttiComm_t>& comms) {
  std::vector<int> values(comms.size(), 0);
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (size_t i = 0; i < comms.size(); ++i) {
    values[i] = static_cast<int>(i) + 1;
    EXPECT_OK(
        tuttiAllReduce(&values[i], &values[i], 1, tuttiInt32, tuttiSum, comms[i], tuttiBlocking()),
        comms[i]);
  }
  EXPECT_OK(tuttiGroupEnd(), nullptr);
  const int n = static_cast<int>(comms.size());
  for (int value : values) EXPECT_EQ(value, n * (n + 1) / 2);
}

TEST(Config, SizesOfOtherVersions) {
  tuttiComm_t comm = nullptr;
  struct {
    tuttiConfig_t known = TUTTI_CONFIG_INITIALIZER;
    unsigned char newer[16] = {};
  } larger;
  larger.known.size = sizeof larger;
  ASSERT_EQ(tuttiCommInitRankConfig(&comm, 1, new_id(), 0, &larger.known), tuttiSuccess)
      << message_of(nullptr);
  EXPECT_OK(tuttiCommDestroy(comm), comm);
  larger.newer[3] = 1;
  EXPECT_REFUSED(tuttiCommInitRankConfig(&comm, 1, new_id(), 0, &larger.known),
                 tuttiInvalidArgument, nullptr);
  EXPECT_EQ(comm, nullptr);

  tuttiConfig_t smaller = TUTTI_CONFIG_INITIALIZER;
  smaller.size = offsetof(tuttiConfig_t, name);
  smaller.name = reinterpret_cast<const char*>(1);  // not read: it is behind the end
  ASSERT_EQ(tuttiCommInitRankConfig(&comm, 1, new_id(), 0, &smaller), tuttiSuccess)
      << message_of(nullptr);
  EXPECT_OK(tuttiCommDestroy(comm), comm);
}

TEST(Config, RefusedValues) {
  const tuttiConfig_t good = TUTTI_CONFIG_INITIALIZER;
  std::vector<tuttiConfig_t> wrong(4, good);
  wrong[0].size = 0;
  wrong[1].size = size_t{1} << 40;
  wrong[2].blocking = 2;
  wrong[3].engine = tuttiEngineNoNccl + 1;
  for (const tuttiConfig_t& config : wrong) {
    tuttiComm_t comm = nullptr;
    EXPECT_REFUSED(tuttiCommInitRankConfig(&comm, 1, new_id(), 0, &config), tuttiInvalidArgument,
                   nullptr);
    EXPECT_EQ(comm, nullptr);
  }
}

TEST(Config, TheNameIsInMessages) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.name = "data\nparallel";
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitRankConfig(&comm, 1, new_id(), 0, &config), tuttiSuccess);
  EXPECT_EQ(tuttiBroadcast(nullptr, nullptr, 1, tuttiInt8, 0, comm, tuttiBlocking()),
            tuttiInvalidArgument);
  EXPECT_NE(message_of(comm).find("'data_parallel'"), std::string::npos) << message_of(comm);
  EXPECT_OK(tuttiCommDestroy(comm), comm);
}

// Cut to what fits, and not within a character.
TEST(Config, AnyNameIsTaken) {
  const std::string umlauts = "x\u00fc\u00fc";  // a byte, then two and two
  const std::pair<std::string, std::string> names[] = {
      {std::string(128, 'x'), std::string(128, 'x')},
      {std::string(100'000, 'x'), std::string(128, 'x')},
      {std::string(123, 'x') + umlauts, std::string(123, 'x') + umlauts},
      {std::string(124, 'x') + umlauts, std::string(125, 'x') + "\u00fc"}};
  for (const auto& [given, kept] : names) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.name = given.c_str();
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiCommInitRankConfig(&comm, 1, new_id(), 0, &config), tuttiSuccess)
        << message_of(nullptr);
    EXPECT_EQ(tuttiBroadcast(nullptr, nullptr, 1, tuttiInt8, 0, comm, tuttiBlocking()),
              tuttiInvalidArgument);
    EXPECT_NE(message_of(comm).find("'" + kept + "'"), std::string::npos) << message_of(comm);
    EXPECT_OK(tuttiCommDestroy(comm), comm);
  }
}

TEST(Config, TheTimeoutIsTheDeadlineOfItsCalls) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeout_ns = 50'000'000;
  const tuttiUniqueId id = new_id();
  std::vector<tuttiComm_t> comms(2);
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(tuttiCommInitRankConfig(&comms[static_cast<size_t>(rank)], 2, id, rank, &config),
              tuttiSuccess);
  }
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << message_of(nullptr);
  EXPECT_REFUSED(tuttiBarrier(comms[0], tuttiBlocking()), tuttiTimeout, comms[0]);
  for (tuttiComm_t comm : comms) EXPECT_OK(tuttiCommDestroy(comm), comm);
}

TEST(Lifecycle, OneThreadMakesAndEndsAllRanks) {
  const tuttiUniqueId ids[2] = {new_id(), new_id()};
  std::vector<tuttiComm_t> first(3), second(2);
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (int rank = 0; rank < 3; ++rank) {
    auto& comm = first[static_cast<size_t>(rank)];
    EXPECT_EQ(tuttiCommInitRank(&comm, 3, ids[0], rank), tuttiSuccess);
    // It is there, and cannot be used yet.
    ASSERT_NE(comm, nullptr);
    int count = 0;
    EXPECT_REFUSED(tuttiCommCount(comm, &count), tuttiInvalidUsage, comm);
    EXPECT_REFUSED(tuttiCommDestroy(comm), tuttiInvalidUsage, comm);
  }
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(tuttiCommInitRank(&second[static_cast<size_t>(rank)], 2, ids[1], rank), tuttiSuccess);
  }
  EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess);
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << message_of(nullptr);
  expect_sums(first);
  expect_sums(second);
  for (tuttiComm_t comm : first) EXPECT_OK(tuttiCommDestroy(comm), comm);
  expect_sums(second);
  for (tuttiComm_t comm : second) EXPECT_OK(tuttiCommDestroy(comm), comm);
  EXPECT_REFUSED(tuttiCommDestroy(first[0]), tuttiInvalidUsage, first[0]);
}

TEST(Lifecycle, AGroupWithARefusedCallMakesNothing) {
  const tuttiUniqueId id = new_id();
  tuttiComm_t comms[2] = {nullptr, nullptr};
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(tuttiCommInitRank(&comms[0], 2, id, 0), tuttiSuccess);
  EXPECT_EQ(tuttiCommInitRank(&comms[1], 2, id, 2), tuttiInvalidArgument);
  EXPECT_REFUSED(tuttiGroupEnd(), tuttiInvalidArgument, nullptr);
  EXPECT_EQ(comms[0], nullptr);
  EXPECT_EQ(comms[1], nullptr);
  EXPECT_REFUSED(tuttiGroupEnd(), tuttiInvalidUsage, nullptr);
}

TEST(Lifecycle, AGroupReportsWhatCouldNotBeMade) {
  const tuttiUniqueId id = new_id();
  tuttiComm_t comms[2] = {nullptr, nullptr};
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (tuttiComm_t& comm : comms) EXPECT_EQ(tuttiCommInitRank(&comm, 2, id, 1), tuttiSuccess);
  EXPECT_REFUSED(tuttiGroupEnd(), tuttiInvalidUsage, nullptr);
  EXPECT_NE(message_of(nullptr).find("rank 1"), std::string::npos) << message_of(nullptr);
  EXPECT_EQ(comms[0], nullptr);
  EXPECT_EQ(comms[1], nullptr);
}

// One thread, no group: possible only because the calls return at once.
TEST(Lifecycle, NotBlocking) {
  const tuttiConfig_t config = nonblocking();
  const tuttiUniqueId id = new_id();
  std::vector<tuttiComm_t> comms(3);
  EXPECT_EQ(tuttiCommInitRankConfig(&comms[0], 3, id, 0, &config), tuttiInProgress);
  tuttiResult_t error = tuttiSuccess;
  EXPECT_OK(tuttiCommGetAsyncError(comms[0], &error), comms[0]);
  EXPECT_EQ(error, tuttiInProgress);
  EXPECT_REFUSED(tuttiBarrier(comms[0], tuttiBlocking()), tuttiInvalidUsage, comms[0]);
  for (int rank = 1; rank < 3; ++rank) {
    EXPECT_EQ(tuttiCommInitRankConfig(&comms[static_cast<size_t>(rank)], 3, id, rank, &config),
              tuttiInProgress);
  }
  for (tuttiComm_t comm : comms) ASSERT_EQ(settle(comm), tuttiSuccess) << message_of(comm);
  expect_sums(comms);
  for (tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommDestroy(comm), tuttiInProgress);
  for (tuttiComm_t comm : comms) {
    EXPECT_EQ(settle(comm), tuttiSuccess);
    EXPECT_REFUSED(tuttiCommDestroy(comm), tuttiInvalidUsage, comm);
  }
}

TEST(Lifecycle, NotBlockingInAGroup) {
  const tuttiConfig_t config = nonblocking();
  const tuttiUniqueId id = new_id();
  std::vector<tuttiComm_t> comms(2);
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(tuttiCommInitRankConfig(&comms[static_cast<size_t>(rank)], 2, id, rank, &config),
              tuttiSuccess);
  }
  EXPECT_EQ(tuttiGroupEnd(), tuttiInProgress);
  for (tuttiComm_t comm : comms) ASSERT_EQ(settle(comm), tuttiSuccess) << message_of(comm);
  expect_sums(comms);
  for (tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommAbort(comm), tuttiInProgress);
  for (tuttiComm_t comm : comms) EXPECT_EQ(settle(comm), tuttiSuccess);
}

// No thread is left to make the one while another makes the other.
TEST(Lifecycle, NotBlockingWithoutAThread) {
  const tuttiConfig_t config = nonblocking();
  const tuttiUniqueId id = new_id();
  std::vector<tuttiComm_t> comms(2);
  {
    const testing_support::NoThreads none;
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(tuttiCommInitRankConfig(&comms[static_cast<size_t>(rank)], 2, id, rank, &config),
                tuttiSuccess);
    }
    EXPECT_EQ(tuttiGroupEnd(), tuttiInProgress);
  }
  for (tuttiComm_t comm : comms) {
    EXPECT_EQ(settle(comm), tuttiSystemError) << message_of(comm);
    EXPECT_OK(tuttiCommDestroy(comm), comm);
  }
}

// A rank that cannot begin tells the ranks that would wait for it.
TEST(Lifecycle, TheOthersHearOfAMakingWithoutAThread) {
  const tuttiConfig_t config = nonblocking();
  const tuttiUniqueId id = new_id();
  tuttiComm_t comms[2] = {nullptr, nullptr};
  {
    const testing_support::NoThreads none;
    EXPECT_EQ(tuttiCommInitRankConfig(&comms[1], 2, id, 1, &config), tuttiInProgress);
  }
  EXPECT_EQ(tuttiCommInitRankConfig(&comms[0], 2, id, 0, &config), tuttiInProgress);
  EXPECT_EQ(settle(comms[1]), tuttiSystemError) << message_of(comms[1]);
  for (const char* word : {"rank 1 of 2: cannot start the thread", "ulimit -u", " on "}) {
    EXPECT_NE(message_of(comms[1]).find(word), std::string::npos) << message_of(comms[1]);
  }
  EXPECT_EQ(settle(comms[0]), tuttiRemoteError) << message_of(comms[0]);
  EXPECT_NE(message_of(comms[0]).find("rank 1"), std::string::npos) << message_of(comms[0]);
  for (tuttiComm_t comm : comms) EXPECT_OK(tuttiCommDestroy(comm), comm);
}

TEST(Lifecycle, NotBlockingFailureIsToldWhenAsked) {
  const tuttiConfig_t config = nonblocking();
  const tuttiUniqueId id = new_id();
  tuttiComm_t comms[2] = {nullptr, nullptr};
  for (tuttiComm_t& comm : comms) {
    EXPECT_EQ(tuttiCommInitRankConfig(&comm, 2, id, 0, &config), tuttiInProgress);
  }
  for (tuttiComm_t comm : comms) {
    EXPECT_EQ(settle(comm), tuttiInvalidUsage);
    EXPECT_NE(message_of(comm).find("rank 0"), std::string::npos) << message_of(comm);
    EXPECT_REFUSED(tuttiBarrier(comm, tuttiBlocking()), tuttiInvalidUsage, comm);
    EXPECT_OK(tuttiCommDestroy(comm), comm);
    EXPECT_REFUSED(tuttiCommDestroy(comm), tuttiInvalidUsage, comm);
  }
}

// Destroyed and aborted while they are being made: they end when they are made.
TEST(Lifecycle, EndedWhileBeingMade) {
  for (const bool abort : {false, true}) {
    const tuttiConfig_t config = nonblocking();
    const tuttiUniqueId id = new_id();
    tuttiComm_t comms[2] = {nullptr, nullptr};
    const auto end = abort ? tuttiCommAbort : tuttiCommDestroy;
    EXPECT_EQ(tuttiCommInitRankConfig(&comms[0], 2, id, 0, &config), tuttiInProgress);
    EXPECT_EQ(end(comms[0]), tuttiInProgress);
    EXPECT_REFUSED(end(comms[0]), tuttiInvalidUsage, comms[0]);
    EXPECT_EQ(tuttiCommInitRankConfig(&comms[1], 2, id, 1, &config), tuttiInProgress);
    EXPECT_EQ(end(comms[1]), tuttiInProgress);
    for (tuttiComm_t comm : comms) EXPECT_EQ(settle(comm), tuttiSuccess);
  }
}

TEST(Lifecycle, AnAbortEndsAMakingWhosePeerNeverComes) {
  const tuttiConfig_t config = nonblocking();
  tuttiComm_t comm = nullptr;
  EXPECT_EQ(tuttiCommInitRankConfig(&comm, 2, new_id(), 0, &config), tuttiInProgress);
  abort_making(comm);
  // A destroy waits for the making, until somebody aborts it after all.
  EXPECT_EQ(tuttiCommInitRankConfig(&comm, 2, new_id(), 1, &config), tuttiInProgress);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiInProgress);
  EXPECT_REFUSED(tuttiCommAbort(comm), tuttiInvalidUsage, comm);
  EXPECT_EQ(settle(comm), tuttiSuccess);
}

TEST(Lifecycle, NothingIsDestroyedUnderAnOpenGroup) {
  run_ranks(2, [](tuttiComm_t& comm, int) {
    int value = 1;
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_OK(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, tuttiBlocking()), comm);
    EXPECT_REFUSED(tuttiCommDestroy(comm), tuttiInvalidUsage, comm);
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    EXPECT_EQ(value, 2);
  });
}

TEST(Lifecycle, NothingIsDestroyedUnderAGroupThatSplitsIt) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    tuttiComm_t child = nullptr;
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_OK(tuttiCommSplit(comm, 0, rank, &child, nullptr), comm);
    EXPECT_REFUSED(tuttiCommDestroy(comm), tuttiInvalidUsage, comm);
    EXPECT_REFUSED(tuttiCommAbort(comm), tuttiInvalidUsage, comm);
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    EXPECT_OK(tuttiCommDestroy(child), child);
  });
}

/// A rank whose peer never comes is given up by another thread; nothing else ends its making.
int abort_what_cannot_be_made() {
  tuttiUniqueId id;
  if (tuttiGetUniqueId(&id) != tuttiSuccess) return 1;
  std::atomic<tuttiComm_t> given{nullptr};
  tuttiComm_t comm = nullptr;
  std::thread maker([&] {
    const tuttiResult_t made = tuttiCommInitRank(&comm, 2, id, 0);
    EXPECT_NE(made, tuttiSuccess);
  });
  while ((given = std::atomic_ref(comm).load()) == nullptr) std::this_thread::yield();
  const tuttiResult_t aborted = tuttiCommAbort(given);
  maker.join();
  return aborted == tuttiSuccess && !testing::Test::HasFailure() ? 0 : 2;
}

TEST(Lifecycle, WhatIsAbortedWhileItCannotBeMadeEnds) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a blocking call gives its handle by a plain store, and only this test polls it";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process whose settings are not read yet
  EXPECT_EXIT(exit(abort_what_cannot_be_made()), testing::ExitedWithCode(0), "");
}

/// The log says for whom it waits, however short "slow" is, and nothing fails.
int wait_for_a_line_in_the_log(const std::string& log) {
  setenv("TUTTI_SLOW", "0.05", 1);
  setenv("TUTTI_LOG", "warn", 1);
  setenv("TUTTI_LOG_FILE", log.c_str(), 1);
  const tuttiConfig_t config = nonblocking();
  tuttiComm_t comm = nullptr;
  EXPECT_EQ(tuttiCommInitRankConfig(&comm, 3, new_id(), 1, &config), tuttiInProgress);
  const auto end = std::chrono::steady_clock::now() + kHang;
  std::string said;
  while (said.find("ranks 0, 2 of 3 did not come") == std::string::npos &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::ifstream file(log);
    said.assign(std::istreambuf_iterator<char>(file), {});
  }
  EXPECT_NE(said.find("ranks 0, 2 of 3 did not come"), std::string::npos) << said;
  tuttiResult_t error = tuttiSuccess;
  EXPECT_OK(tuttiCommGetAsyncError(comm, &error), comm);
  EXPECT_EQ(error, tuttiInProgress);
  abort_making(comm);
  return testing::Test::HasFailure() ? 2 : 0;
}

TEST(Lifecycle, AnAsynchronousErrorHasWords) {
  tuttiComm_t comms[2] = {};
  EXPECT_OK(tuttiCommInitAll(comms, 2, nullptr), nullptr);
  EXPECT_OK(tuttiCommAbort(comms[0]), nullptr);
  tuttiStream_t queue;
  EXPECT_OK(tuttiStreamCreate(&queue), nullptr);
  EXPECT_OK(tuttiBarrier(comms[1], queue), comms[1]);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  tuttiResult_t error = tuttiSuccess;
  while (error == tuttiSuccess && std::chrono::steady_clock::now() < end) {
    EXPECT_OK(tuttiCommGetAsyncError(comms[1], &error), comms[1]);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(error, tuttiRemoteError);
  const std::string words = tuttiGetLastError(comms[1]);
  EXPECT_NE(words.find("rank 0"), std::string::npos) << words;
  EXPECT_EQ(tuttiStreamSynchronize(queue), tuttiRemoteError);
  EXPECT_OK(tuttiStreamDestroy(queue), nullptr);
  EXPECT_OK(tuttiCommAbort(comms[1]), nullptr);
}

TEST(Lifecycle, AMakingThatTakesLongSaysForWhomItWaits) {
  const std::string log = testing::TempDir() + "tutti-slow-" + std::to_string(getpid());
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process whose settings are not read yet
  EXPECT_EXIT(exit(wait_for_a_line_in_the_log(log)), testing::ExitedWithCode(0), "");
  std::remove(log.c_str());
}

}  // namespace
}  // namespace tutti::api_test
