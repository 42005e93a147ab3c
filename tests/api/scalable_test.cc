// Communicators made with several unique ids.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"

namespace tutti::api_test {
namespace {

std::vector<tuttiUniqueId> new_ids(int count) {
  std::vector<tuttiUniqueId> ids(static_cast<size_t>(count));
  for (tuttiUniqueId& id : ids) {
    EXPECT_EQ(tuttiGetUniqueId(&id), tuttiSuccess) << message_of(nullptr);
  }
  return ids;
}

void expect_sum(tuttiComm_t comm, int ranks, int rank) {
  int size = 0, number = -1, value = rank + 1;
  EXPECT_OK(tuttiCommCount(comm, &size), comm);
  EXPECT_OK(tuttiCommUserRank(comm, &number), comm);
  EXPECT_EQ(size, ranks);
  EXPECT_EQ(number, rank);
  EXPECT_OK(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, tuttiBlocking()), comm);
  EXPECT_EQ(value, ranks * (ranks + 1) / 2);
}

void meet(int ranks, int id_count) {
  const std::vector<tuttiUniqueId> ids = new_ids(id_count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.name = "large";
      tuttiComm_t comm = nullptr;
      ASSERT_EQ(tuttiCommInitRankScalable(&comm, ranks, rank, id_count, ids.data(),
                                          rank % 2 == 0 ? &config : nullptr),
                tuttiSuccess)
          << message_of(nullptr);
      expect_sum(comm, ranks, rank);
      EXPECT_OK(tuttiCommDestroy(comm), comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Scalable, RanksOfSeveralIdsMeet) {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    for (int id_count = 1; id_count <= std::min(ranks, 3); ++id_count) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(id_count) + " ids");
      meet(ranks, id_count);
    }
  }
  meet(6, 6);
}

TEST(Scalable, AWrongNumberOfIdsIsRefused) {
  const std::vector<tuttiUniqueId> ids = new_ids(4);
  for (const int id_count : {-1, 0, 4}) {
    auto comm = reinterpret_cast<tuttiComm_t>(1);
    EXPECT_REFUSED(tuttiCommInitRankScalable(&comm, 3, 0, id_count, ids.data(), nullptr),
                   tuttiInvalidArgument, nullptr);
    EXPECT_NE(message_of(nullptr).find(std::to_string(id_count) + " ids for 3 ranks"),
              std::string::npos)
        << message_of(nullptr);
    EXPECT_EQ(comm, nullptr);
  }
  tuttiComm_t comm = nullptr;
  EXPECT_REFUSED(tuttiCommInitRankScalable(&comm, 3, 0, 2, nullptr, nullptr), tuttiInvalidArgument,
                 nullptr);
  EXPECT_REFUSED(tuttiCommInitRankScalable(nullptr, 3, 0, 2, ids.data(), nullptr),
                 tuttiInvalidArgument, nullptr);
}

TEST(Scalable, AnIdThatIsNoneIsRefused) {
  std::vector<tuttiUniqueId> ids = new_ids(2);
  ids[1] = {};
  tuttiComm_t comm = nullptr;
  EXPECT_REFUSED(tuttiCommInitRankScalable(&comm, 2, 0, 2, ids.data(), nullptr),
                 tuttiInvalidArgument, nullptr);
  EXPECT_EQ(comm, nullptr);
}

// Rank 2 does not come, and rank 3, which waits for it in their part, gives up: the other part
// waits for theirs where the parts are merged.
TEST(Scalable, WhoGivesUpEndsTheWaitOfAllParts) {
  constexpr int kRanks = 4, kIds = 2;
  const std::vector<tuttiUniqueId> ids = new_ids(kIds);
  std::vector<std::thread> others;
  for (int rank = 0; rank < 2; ++rank) {
    others.emplace_back([&, rank] {
      tuttiComm_t comm = nullptr;
      EXPECT_EQ(tuttiCommInitRankScalable(&comm, kRanks, rank, kIds, ids.data(), nullptr),
                tuttiRemoteError)
          << rank << ": " << message_of(nullptr);
    });
  }
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  tuttiComm_t comm = nullptr;
  EXPECT_EQ(tuttiCommInitRankScalable(&comm, kRanks, 3, kIds, ids.data(), &config),
            tuttiInProgress);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  abort_making(comm);
  for (std::thread& other : others) other.join();
}

TEST(Scalable, RanksWithDifferentNumbersOfIdsAreTold) {
  const std::vector<tuttiUniqueId> ids = new_ids(2);
  std::vector<std::string> messages(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      tuttiComm_t comm = nullptr;
      EXPECT_NE(tuttiCommInitRankScalable(&comm, 2, rank, 1 + rank, ids.data(), nullptr),
                tuttiSuccess);
      EXPECT_EQ(comm, nullptr);
      messages[static_cast<size_t>(rank)] = message_of(nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE((messages[0] + messages[1]).find("unique ids"), std::string::npos)
      << messages[0] << "\n"
      << messages[1];
}

}  // namespace
}  // namespace tutti::api_test
