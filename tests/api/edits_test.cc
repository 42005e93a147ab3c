// Communicators made from others: split, shrink, grow; revoke and finalize; by threads and by one
// thread. Processes, networks and dead ranks: tests/kill/edits_main.cc.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "tests/api/crowd.h"

namespace tutti::api_test {
namespace {

constexpr uint64_t kHangMs = 60'000;

int rank_of(tuttiComm_t comm) {
  int rank = -1;
  EXPECT_OK(tuttiCommUserRank(comm, &rank), comm);
  return rank;
}

int count_of(tuttiComm_t comm) {
  int ranks = -1;
  EXPECT_OK(tuttiCommCount(comm, &ranks), comm);
  return ranks;
}

TEST(Edits, SplitByColourInTheOrderOfKeys) {
  run_ranks(5, [](tuttiComm_t& comm, int rank) {
    // Colour 0: ranks 0, 2, 4, backwards; colour 1: ranks 1, 3, with equal keys.
    const int color = rank % 2;
    tuttiComm_t child = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, color, color == 0 ? -rank : 7, &child, nullptr), tuttiSuccess)
        << message_of(nullptr);
    EXPECT_EQ(count_of(child), color == 0 ? 3 : 2);
    EXPECT_EQ(rank_of(child), color == 0 ? 2 - rank / 2 : rank / 2);
    EXPECT_EQ(sum_over(child, rank), color == 0 ? 6 : 4);
    EXPECT_EQ(sum_over(comm, rank), 10);
    // The parent goes first, and the child's child lives on.
    tuttiComm_t parent = comm;
    comm = nullptr;
    EXPECT_OK(tuttiCommDestroy(parent), parent);
    EXPECT_EQ(sum_over(child, 1), color == 0 ? 3 : 2);
    tuttiComm_t grandchild = nullptr;
    ASSERT_EQ(tuttiCommSplit(child, 0, 0, &grandchild, nullptr), tuttiSuccess);
    EXPECT_OK(tuttiCommDestroy(child), child);
    EXPECT_EQ(sum_over(grandchild, 1), color == 0 ? 3 : 2);
    EXPECT_OK(tuttiCommDestroy(grandchild), grandchild);
  });
}

TEST(Edits, SplitWithoutColour) {
  run_ranks(3, [](tuttiComm_t& comm, int rank) {
    for (int turn = 0; turn < 3; ++turn) {
      auto child = reinterpret_cast<tuttiComm_t>(1);
      ASSERT_EQ(tuttiCommSplit(comm, rank == turn ? TUTTI_SPLIT_NOCOLOR : 4, 0, &child, nullptr),
                tuttiSuccess)
          << message_of(nullptr);
      if (rank == turn) {
        EXPECT_EQ(child, nullptr);
        continue;
      }
      EXPECT_EQ(sum_over(child, rank), 3 - turn);
      EXPECT_OK(tuttiCommDestroy(child), child);
    }
    EXPECT_EQ(sum_over(comm, 1), 3);
  });
}

TEST(Edits, RefusedArguments) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    tuttiComm_t made = nullptr;
    const int wrong[] = {1, 0, 0};
    tuttiUniqueId id;
    const auto invalid = tuttiInvalidArgument;
    EXPECT_REFUSED(tuttiCommSplit(comm, 0, 0, nullptr, nullptr), invalid, comm);
    EXPECT_REFUSED(tuttiCommSplit(comm, -2, 0, &made, nullptr), invalid, comm);
    EXPECT_REFUSED(tuttiCommSplit(nullptr, 0, 0, &made, nullptr), invalid, nullptr);
    EXPECT_REFUSED(tuttiCommShrink(comm, wrong, 1, &made, nullptr, 0), invalid, comm);
    EXPECT_REFUSED(tuttiCommShrink(comm, wrong + 1, 1, &made, nullptr, 0), invalid, comm);
    EXPECT_REFUSED(tuttiCommShrink(comm, wrong + 1, 2, &made, nullptr, 0), invalid, comm);
    EXPECT_REFUSED(tuttiCommShrink(comm, nullptr, 1, &made, nullptr, 0), invalid, comm);
    EXPECT_REFUSED(tuttiCommShrink(comm, nullptr, -1, &made, nullptr, 0), invalid, comm);
    EXPECT_REFUSED(tuttiCommShrink(comm, nullptr, 0, &made, nullptr, 2), invalid, comm);
    EXPECT_REFUSED(tuttiCommGrow(comm, 1, nullptr, -1, &made, nullptr), invalid, comm);
    EXPECT_REFUSED(tuttiCommGrow(comm, 2, nullptr, 0, &made, nullptr), invalid, comm);
    EXPECT_REFUSED(tuttiCommGrow(nullptr, 2, nullptr, 1, &made, nullptr), invalid, nullptr);
    EXPECT_REFUSED(tuttiCommGrow(comm, 2, nullptr, -1, &made, nullptr), tuttiInvalidUsage, nullptr);
    EXPECT_REFUSED(tuttiCommGetUniqueId(comm, nullptr), invalid, comm);
    EXPECT_REFUSED(tuttiCommGetUniqueId(nullptr, &id), invalid, nullptr);
    EXPECT_REFUSED(tuttiCommRevoke(comm, 1), invalid, comm);
    EXPECT_REFUSED(tuttiCommInitAll(nullptr, 1, nullptr), invalid, nullptr);
    EXPECT_REFUSED(tuttiCommInitAll(&made, 0, nullptr), invalid, nullptr);
    const int device = -1;
    made = comm;
    EXPECT_REFUSED(tuttiCommInitAll(&made, 1, &device), invalid, nullptr);
    EXPECT_EQ(made, nullptr);
    EXPECT_EQ(sum_over(comm, 3), 3);
  });
}

// A rank that wants something else learns of it and of the ranks that differ, and the parent is as
// good as before.
TEST(Edits, RanksThatDisagree) {
  run_ranks(3, [](tuttiComm_t& comm, int rank) {
    tuttiComm_t made = nullptr;
    const tuttiResult_t result = rank == 2 ? tuttiCommShrink(comm, nullptr, 0, &made, nullptr, 0)
                                           : tuttiCommSplit(comm, 0, 0, &made, nullptr);
    EXPECT_EQ(result, tuttiInvalidUsage);
    const std::string message = message_of(nullptr);
    EXPECT_NE(message.find("rank 2 called tuttiCommShrink"), std::string::npos) << message;
    EXPECT_EQ(made, nullptr);
    EXPECT_EQ(tuttiCommGrow(comm, 4 + rank / 2, nullptr, -1, &made, nullptr), tuttiInvalidUsage);
    EXPECT_EQ(sum_over(comm, 1), 3);
    ASSERT_EQ(tuttiCommSplit(comm, 0, 0, &made, nullptr), tuttiSuccess) << message_of(nullptr);
    EXPECT_EQ(sum_over(made, 1), 3);
    EXPECT_OK(tuttiCommDestroy(made), made);
  });
}

TEST(Edits, ShrinkKeepsTheOrderOfTheOthers) {
  run_ranks(5, [](tuttiComm_t& comm, int rank) {
    const int excluded[] = {3, 0};
    if (rank == 0 || rank == 3) {
      EXPECT_EQ(sum_over(comm, 1), 5);
      return;
    }
    tuttiComm_t made = nullptr;
    ASSERT_EQ(tuttiCommShrink(comm, excluded, 2, &made, nullptr, TUTTI_SHRINK_DEFAULT),
              tuttiSuccess)
        << message_of(nullptr);
    EXPECT_EQ(rank_of(made), rank == 1 ? 0 : rank == 2 ? 1 : 2);
    EXPECT_EQ(sum_over(made, rank), 7);
    EXPECT_EQ(sum_over(comm, 1), 5);
    EXPECT_OK(tuttiCommDestroy(made), made);
  });
}

// A rank that does not know that the others leave it out: it learns, and they are not disturbed.
TEST(Edits, WhoIsLeftOutOfAShrinkCanNotSplit) {
  std::latch refused(1);
  run_ranks(3, [&refused](tuttiComm_t& comm, int rank) {
    tuttiComm_t made = nullptr;
    if (rank == 2) {
      EXPECT_EQ(tuttiCommSplit(comm, 0, 0, &made, nullptr), tuttiInvalidUsage);
      const std::string message = message_of(nullptr);
      EXPECT_NE(message.find("leave rank 2 out"), std::string::npos) << message;
      refused.count_down();
    } else {
      if (rank == 1) refused.wait();
      const int excluded = 2;
      ASSERT_EQ(tuttiCommShrink(comm, &excluded, 1, &made, nullptr, TUTTI_SHRINK_DEFAULT),
                tuttiSuccess)
          << message_of(nullptr);
      EXPECT_EQ(sum_over(made, 1), 2);
      EXPECT_OK(tuttiCommDestroy(made), made);
    }
    EXPECT_EQ(sum_over(comm, 1), 3);
  });
}

// A rank that will never come: what waits for it ends, and the others go on without it.
TEST(Edits, ShrinkEndsWhatIsInFlight) {
  std::latch shrunk(2);
  run_ranks(3, [&shrunk](tuttiComm_t& comm, int rank) {
    const int excluded = 1;
    if (rank == 1) return shrunk.wait();  // its destroy is a call that the broadcast would meet
    tuttiStream_t stream;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    int value = 1;
    EXPECT_OK(tuttiBroadcast(&value, &value, 1, tuttiInt32, 1, comm, stream), comm);
    tuttiComm_t made = nullptr;
    const tuttiResult_t result =
        tuttiCommShrink(comm, &excluded, 1, &made, nullptr, TUTTI_SHRINK_ABORT);
    shrunk.count_down();
    ASSERT_EQ(result, tuttiSuccess) << message_of(nullptr);
    EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiRemoteError);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(sum_over(made, 1), 2);
    EXPECT_REFUSED(tuttiBarrier(comm, tuttiBlocking()), tuttiRemoteError, comm);
    EXPECT_OK(tuttiCommDestroy(made), made);
  });
}

TEST(Edits, GrowKeepsTheNumbersOfTheOld) {
  std::atomic<bool> known{false};
  tuttiUniqueId shared;
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    std::thread newcomer;
    if (rank == 1) {  // any rank may be the one that has the id
      ASSERT_EQ(tuttiCommGetUniqueId(comm, &shared), tuttiSuccess) << message_of(comm);
      newcomer = std::thread([&] {
        tuttiComm_t made = nullptr;
        ASSERT_EQ(tuttiCommGrow(nullptr, 3, &shared, 2, &made, nullptr), tuttiSuccess)
            << message_of(nullptr);
        EXPECT_EQ(sum_over(made, 100), 111);
        EXPECT_OK(tuttiCommDestroy(made), made);
      });
    }
    tuttiComm_t made = nullptr;
    ASSERT_EQ(tuttiCommGrow(comm, 3, rank == 1 ? &shared : nullptr, -1, &made, nullptr),
              tuttiSuccess)
        << message_of(nullptr);
    EXPECT_EQ(rank_of(made), rank);
    EXPECT_EQ(count_of(made), 3);
    EXPECT_EQ(sum_over(made, rank == 0 ? 1 : 10), 111);
    EXPECT_OK(tuttiCommDestroy(made), made);
    if (newcomer.joinable()) newcomer.join();
  });
}

TEST(Edits, AGrowThatFailsIsTheNewRanksErrorToo) {
  tuttiUniqueId shared;
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    std::thread newcomer;
    if (rank == 0) {
      ASSERT_EQ(tuttiCommGetUniqueId(comm, &shared), tuttiSuccess) << message_of(comm);
      newcomer = std::thread([&] {
        tuttiComm_t made = nullptr;
        EXPECT_EQ(tuttiCommGrow(nullptr, 3, &shared, 2, &made, nullptr), tuttiRemoteError)
            << message_of(nullptr);
        EXPECT_EQ(made, nullptr);
      });
    }
    tuttiComm_t made = nullptr;
    // They do not agree how many there are to be.
    EXPECT_EQ(tuttiCommGrow(comm, 3 + rank, rank == 0 ? &shared : nullptr, -1, &made, nullptr),
              tuttiInvalidUsage)
        << message_of(nullptr);
    EXPECT_EQ(made, nullptr);
    if (newcomer.joinable()) newcomer.join();
  });
}

TEST(Edits, ARevokedCommunicatorCanOnlyBeDividedOrDestroyed) {
  run_ranks(3, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    int value = 1;
    if (rank == 2) {
      // In flight while the others revoke.
      EXPECT_REFUSED(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, tuttiBlocking()),
                     tuttiRemoteError, comm);
    }
    EXPECT_OK(tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT), comm);
    tuttiResult_t error = tuttiInternalError;
    EXPECT_OK(tuttiCommGetAsyncError(comm, &error), comm);
    EXPECT_EQ(error, tuttiSuccess);
    EXPECT_EQ(count_of(comm), 3);
    tuttiComm_t made = nullptr;
    const auto refused = tuttiInvalidUsage;
    EXPECT_REFUSED(tuttiBarrier(comm, tuttiBlocking()), refused, comm);
    EXPECT_REFUSED(tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT), refused, comm);
    EXPECT_REFUSED(tuttiCommFinalize(comm), refused, comm);
    EXPECT_REFUSED(tuttiCommGrow(comm, 4, nullptr, -1, &made, nullptr), refused, comm);
    ASSERT_EQ(tuttiCommSplit(comm, 0, -rank, &made, nullptr), tuttiSuccess) << message_of(nullptr);
    EXPECT_EQ(rank_of(made), 2 - rank);
    EXPECT_EQ(sum_over(made, 1), 3);
    EXPECT_OK(tuttiCommDestroy(made), made);
    EXPECT_REFUSED(tuttiBarrier(comm, tuttiBlocking()), refused, comm);
  });
}

TEST(Edits, FinalizedIsOnlyToBeDestroyed) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    tuttiStream_t stream;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    int value = rank + 1;
    EXPECT_OK(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, stream), comm);
    EXPECT_OK(tuttiCommFinalize(comm), comm);
    EXPECT_EQ(value, 3);  // flushed
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(count_of(comm), 2);
    EXPECT_REFUSED(tuttiBarrier(comm, tuttiBlocking()), tuttiInvalidUsage, comm);
    EXPECT_REFUSED(tuttiCommFinalize(comm), tuttiInvalidUsage, comm);
    EXPECT_REFUSED(tuttiCommRevoke(comm, 0), tuttiInvalidUsage, comm);
  });
}

TEST(Edits, OneThreadSplitsWhatItMadeInAGroup) {
  constexpr int kRanks = 4;
  const int devices[kRanks] = {0, 0, 1, 1};
  std::vector<tuttiComm_t> all(kRanks), halves(kRanks);
  ASSERT_EQ(tuttiCommInitAll(all.data(), kRanks, devices), tuttiSuccess) << message_of(nullptr);
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_OK(tuttiCommSplit(all[i], static_cast<int>(i) / 2, 0, &halves[i], nullptr), all[i]);
    // Until the group ends it takes no other call.
    EXPECT_EQ(tuttiCommDestroy(halves[i]), tuttiInvalidUsage);
  }
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << message_of(nullptr);
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  std::vector<int> sums(kRanks), values(kRanks);
  std::iota(values.begin(), values.end(), 0);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_OK(
        tuttiAllReduce(&values[i], &sums[i], 1, tuttiInt32, tuttiSum, halves[i], tuttiBlocking()),
        halves[i]);
    EXPECT_OK(tuttiBarrier(all[i], tuttiBlocking()), all[i]);
  }
  EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << message_of(nullptr);
  EXPECT_EQ(sums, (std::vector<int>{1, 1, 5, 5}));
  for (tuttiComm_t comm : all) EXPECT_OK(tuttiCommDestroy(comm), comm);
  for (tuttiComm_t comm : halves) EXPECT_OK(tuttiCommDestroy(comm), comm);
}

TEST(Edits, AGroupHasOperationsOrEditsOfACommunicator) {
  tuttiComm_t comm = nullptr, made = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess) << message_of(nullptr);
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
  EXPECT_REFUSED(tuttiCommSplit(comm, 0, 0, &made, nullptr), tuttiInvalidUsage, comm);
  EXPECT_REFUSED(tuttiGroupEnd(), tuttiInvalidUsage, nullptr);
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_OK(tuttiCommSplit(comm, 0, 0, &made, nullptr), comm);
  EXPECT_REFUSED(tuttiBarrier(comm, tuttiBlocking()), tuttiInvalidUsage, comm);
  EXPECT_REFUSED(tuttiGroupEnd(), tuttiInvalidUsage, nullptr);
  EXPECT_EQ(made, nullptr);
  EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
  EXPECT_OK(tuttiCommDestroy(comm), comm);
}

// One thread, no group. The parent's configuration counts, and is the child's.
TEST(Edits, NotBlocking) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  std::vector<tuttiComm_t> all(3), made(3);
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess) << message_of(nullptr);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(tuttiCommInitRankConfig(&all[i], 3, id, i, &config), tuttiInProgress);
  }
  for (tuttiComm_t comm : all) ASSERT_EQ(settle(comm), tuttiSuccess) << message_of(comm);
  for (size_t i = 0; i < 3; ++i) {
    const int color = i == 1 ? TUTTI_SPLIT_NOCOLOR : 0;
    EXPECT_EQ(tuttiCommSplit(all[i], color, 0, &made[i], nullptr), tuttiInProgress);
    EXPECT_EQ(made[i] == nullptr, i == 1);
  }
  for (tuttiComm_t comm : all) EXPECT_EQ(settle(comm), tuttiSuccess) << message_of(comm);
  for (const size_t i : {0, 2}) {
    EXPECT_EQ(settle(made[i]), tuttiSuccess) << message_of(made[i]);
    EXPECT_EQ(count_of(made[i]), 2);
  }
  // The parent is ended while something is made from it: that is made all the same.
  const int excluded = 1;
  tuttiComm_t next[2] = {nullptr, nullptr};
  EXPECT_EQ(tuttiCommShrink(all[0], &excluded, 1, &next[0], nullptr, 0), tuttiInProgress);
  EXPECT_EQ(tuttiCommDestroy(all[0]), tuttiInProgress);
  EXPECT_EQ(tuttiCommShrink(all[2], &excluded, 1, &next[1], nullptr, 0), tuttiInProgress);
  for (tuttiComm_t comm : next) EXPECT_EQ(settle(comm), tuttiSuccess) << message_of(comm);
  for (const size_t i : {1, 2}) EXPECT_EQ(tuttiCommDestroy(all[i]), tuttiInProgress);
  for (tuttiComm_t comm : all) EXPECT_EQ(settle(comm), tuttiSuccess) << message_of(comm);
  for (tuttiComm_t comm : {made[0], made[2], next[0], next[1]}) {
    EXPECT_EQ(tuttiCommFinalize(comm), tuttiInProgress);
    EXPECT_EQ(settle(comm), tuttiSuccess);
    EXPECT_REFUSED(tuttiBarrier(comm, tuttiBlocking()), tuttiInvalidUsage, comm);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiInProgress);
  }
  for (tuttiComm_t comm : {made[0], made[2], next[0], next[1]}) {
    EXPECT_EQ(settle(comm), tuttiSuccess);
  }
}

// The rank that gets nothing has no other communicator to ask.
TEST(Edits, BlockAsTheParentDoes) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    tuttiComm_t made = nullptr;
    const int color = rank == 0 ? TUTTI_SPLIT_NOCOLOR : 0;
    EXPECT_OK(tuttiCommSplit(comm, color, 0, &made, &config), comm);
    EXPECT_EQ(sum_over(comm, rank), 1);
    if (rank == 0) return;
    EXPECT_EQ(tuttiCommFinalize(made), tuttiInProgress);
    EXPECT_EQ(settle(made), tuttiSuccess) << message_of(made);
    EXPECT_OK(outcome_of(tuttiCommDestroy(made), made), made);
  });
}

// A split that gives a rank nothing has no handle to keep its failure in.
TEST(Edits, AFailureWithoutColourIsToldOnce) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  for (const bool revoked : {false, true}) {
    for (const int blocking : {0, 1}) {
      config.blocking = blocking;
      const auto body = [&](tuttiComm_t& comm, int rank) {
        tuttiComm_t made = nullptr;
        if (revoked) {
          EXPECT_OK(tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT), comm);
        }
        if (rank == 1) {  // wants something else
          const tuttiResult_t shrunk = tuttiCommShrink(comm, nullptr, 0, &made, nullptr, 0);
          EXPECT_EQ(outcome_of(shrunk, made), tuttiInvalidUsage);
          return;
        }
        EXPECT_REFUSED(tuttiCommSplit(comm, TUTTI_SPLIT_NOCOLOR, 0, &made, nullptr),
                       blocking == 1 ? tuttiInvalidUsage : tuttiInProgress, nullptr);
        if (blocking == 0) {
          EXPECT_EQ(settle(comm), tuttiInvalidUsage) << message_of(comm);
        }
        EXPECT_EQ(settle(comm), tuttiSuccess) << message_of(comm);
      };
      run_ranks(2, body, &config);
    }
  }
}

// Nothing else would end it. The lower rank serves the meeting, the higher one finds it not served.
TEST(Edits, AnAbortEndsASplitWhosePartnerNeverComes) {
  for (const int alone : {0, 1}) {
    std::latch over(2);
    run_ranks(2, [&](tuttiComm_t& comm, int rank) {
      const tuttiComm_t parent = std::exchange(comm, nullptr);
      if (rank == alone) {
        tuttiComm_t child = nullptr;
        std::thread splitting(
            [&] { EXPECT_EQ(tuttiCommSplit(parent, 0, 0, &child, nullptr), tuttiRemoteError); });
        until_busy(parent, true);
        EXPECT_OK(tuttiCommAbort(parent), parent);
        splitting.join();
        EXPECT_EQ(child, nullptr);
      }
      over.arrive_and_wait();
      if (rank != alone) {
        EXPECT_OK(tuttiCommAbort(parent), parent);
      }
    });
  }
}

TEST(Edits, AnAbortOfTheChildEndsASplitAndLeavesTheParent) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  for (const int alone : {0, 1}) {
    std::latch over(2);
    const auto body = [&](tuttiComm_t& comm, int rank) {
      tuttiComm_t child = nullptr;
      if (rank == alone) {
        EXPECT_EQ(tuttiCommSplit(comm, 0, 0, &child, nullptr), tuttiInProgress);
        abort_making(child);
        until_busy(comm, false);
      }
      over.arrive_and_wait();
      EXPECT_EQ(sum_over(comm, rank), 1);
      EXPECT_EQ(tuttiCommSplit(comm, 0, rank, &child, nullptr), tuttiInProgress);
      EXPECT_EQ(settle(child), tuttiSuccess) << message_of(child);
      EXPECT_EQ(sum_over(child, rank), 1);
      EXPECT_OK(outcome_of(tuttiCommDestroy(child), child), child);
    };
    run_ranks(2, body, &config);
  }
}

}  // namespace
}  // namespace tutti::api_test
