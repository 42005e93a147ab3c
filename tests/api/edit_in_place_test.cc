// Edits in place by threads: what is refused, what stays, what works again. Processes, networks and
// dead ranks: tests/kill/in_place_main.cc.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>

#include "tests/api/crowd.h"

namespace tutti::api_test {
namespace {

int rank_in(tuttiComm_t comm) {
  int rank = -1;
  EXPECT_OK(tuttiCommUserRank(comm, &rank), comm);
  return rank;
}

uint32_t epoch_of(tuttiComm_t comm) {
  uint32_t epoch = ~0u;
  EXPECT_OK(tuttiCommGetEpoch(comm, &epoch), comm);
  return epoch;
}

tuttiEdit_t removing(const int* rank) {
  tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
  edit.removed = rank;
  edit.removed_count = 1;
  return edit;
}

TEST(EditInPlace, RemovesALivingRankWhichHearsOfItAndKeepsTheHandle) {
  run_ranks(3, [](tuttiComm_t& comm, int rank) {
    const int last = 1;
    tuttiComm_t const before = comm;
    if (rank == last) {
      // It is in a call that the others never enter: that ends when they have gone on.
      int value = 1, sum = 0;
      EXPECT_EQ(tuttiAllReduce(&value, &sum, 1, tuttiInt32, tuttiSum, comm, tuttiBlocking()),
                tuttiRemoteError);
      return;
    }
    tuttiMemberId mine, same;
    EXPECT_OK(tuttiCommGetMemberId(comm, rank, &mine), comm);
    const tuttiEdit_t edit = removing(&last);
    tuttiEditReport_t report = {};
    report.size = sizeof report;
    ASSERT_EQ(tuttiCommEdit(comm, &edit, &report), tuttiSuccess) << message_of(nullptr);
    EXPECT_EQ(comm, before);
    EXPECT_EQ(report.epoch, 1u);
    EXPECT_EQ(report.rank, rank / 2);
    EXPECT_EQ(report.ranks, 2);
    EXPECT_EQ(report.removed, 1);
    EXPECT_EQ(report.joined, 0);
    EXPECT_EQ(rank_in(comm), rank / 2);
    EXPECT_EQ(epoch_of(comm), 1u);
    EXPECT_OK(tuttiCommGetMemberId(comm, rank / 2, &same), comm);
    EXPECT_EQ(std::memcmp(&mine, &same, sizeof mine), 0);
    EXPECT_EQ(sum_over(comm, rank), 2);
  });
}

TEST(EditInPlace, RepairsAFailedCommunicatorWhileAnotherOneNeverNotices) {
  run_ranks(3, [](tuttiComm_t& comm, int rank) {
    tuttiComm_t other = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, 0, rank, &other, nullptr), tuttiSuccess);
    // The ranks' calls differ, which fails the communicator.
    int values[2] = {1, 1}, sums[2] = {};
    const size_t count = rank == 0 ? 1 : 2;
    EXPECT_NE(tuttiAllReduce(values, sums, count, tuttiInt32, tuttiSum, comm, tuttiBlocking()),
              tuttiSuccess);
    EXPECT_EQ(sum_over(other, rank), 3);
    const tuttiEdit_t nothing = TUTTI_EDIT_INITIALIZER;
    ASSERT_EQ(tuttiCommEdit(comm, &nothing, nullptr), tuttiSuccess) << message_of(nullptr);
    EXPECT_EQ(sum_over(comm, rank), 3);
    EXPECT_EQ(rank_in(comm), rank);
    EXPECT_EQ(epoch_of(comm), 1u);
    EXPECT_EQ(epoch_of(other), 0u);
    EXPECT_EQ(sum_over(other, rank), 3);
    EXPECT_OK(tuttiCommDestroy(other), other);
  });
}

TEST(EditInPlace, RevivesARevokedCommunicator) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    EXPECT_OK(tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT), comm);
    const tuttiEdit_t nothing = TUTTI_EDIT_INITIALIZER;
    ASSERT_EQ(tuttiCommEdit(comm, &nothing, nullptr), tuttiSuccess) << message_of(nullptr);
    EXPECT_EQ(sum_over(comm, rank), 1);
  });
}

TEST(EditInPlace, MembersThatWantDifferentEditsAreToldAndStay) {
  run_ranks(3, [](tuttiComm_t& comm, int rank) {
    const int order[] = {2, 1, 0};
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.order = rank == 0 ? order : nullptr;
    edit.order_count = rank == 0 ? 3 : 0;
    edit.timeout_ns = 3'000'000'000;
    const tuttiResult_t result = tuttiCommEdit(comm, &edit, nullptr);
    EXPECT_TRUE(result == tuttiInvalidUsage || result == tuttiTimeout) << message_of(nullptr);
    EXPECT_EQ(epoch_of(comm), 0u);
    EXPECT_EQ(sum_over(comm, rank), 3);
    const tuttiEdit_t nothing = TUTTI_EDIT_INITIALIZER;
    ASSERT_EQ(tuttiCommEdit(comm, &nothing, nullptr), tuttiSuccess) << message_of(nullptr);
    EXPECT_EQ(sum_over(comm, rank), 3);
  });
}

TEST(EditInPlace, ShrinksToOneRankAndGrowsFromIt) {
  tuttiUniqueId id;
  std::thread newcomer;
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    const int last = 1;
    if (rank == last) return;
    const tuttiEdit_t alone = removing(&last);
    ASSERT_EQ(tuttiCommEdit(comm, &alone, nullptr), tuttiSuccess) << message_of(nullptr);
    EXPECT_EQ(sum_over(comm, 5), 5);
    ASSERT_EQ(tuttiCommGetUniqueId(comm, &id), tuttiSuccess);
    newcomer = std::thread([&id] {
      tuttiComm_t joined = nullptr;
      ASSERT_EQ(tuttiCommJoin(&joined, &id, nullptr), tuttiSuccess) << message_of(nullptr);
      EXPECT_EQ(rank_in(joined), 0);
      EXPECT_EQ(epoch_of(joined), 2u);
      EXPECT_EQ(sum_over(joined, 7), 12);
      EXPECT_OK(tuttiCommDestroy(joined), joined);
    });
    const int order[] = {TUTTI_NEWCOMER, 0};
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.order = order;
    edit.order_count = 2;
    ASSERT_EQ(tuttiCommEdit(comm, &edit, nullptr), tuttiSuccess) << message_of(nullptr);
    EXPECT_EQ(rank_in(comm), 1);
    EXPECT_EQ(sum_over(comm, 5), 12);
  });
  newcomer.join();
}

TEST(EditInPlace, WithoutBlockingItIsPolled) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.blocking = 0;
    tuttiComm_t polled = nullptr;
    const tuttiResult_t split = tuttiCommSplit(comm, 0, rank, &polled, &config);
    ASSERT_TRUE(split == tuttiSuccess || split == tuttiInProgress);
    const auto settle = [&] {
      tuttiResult_t state = tuttiInProgress;
      while (state == tuttiInProgress) EXPECT_OK(tuttiCommGetAsyncError(polled, &state), polled);
      EXPECT_EQ(state, tuttiSuccess) << message_of(polled);
    };
    settle();
    const tuttiEdit_t nothing = TUTTI_EDIT_INITIALIZER;
    tuttiEditReport_t report = {};
    report.size = sizeof report;
    EXPECT_EQ(tuttiCommEdit(polled, &nothing, &report), tuttiInProgress);
    settle();
    EXPECT_EQ(report.epoch, 1u);
    EXPECT_EQ(sum_over(polled, rank), 1);
    EXPECT_EQ(tuttiCommDestroy(polled), tuttiInProgress);
    settle();
  });
}

void expect_refused(tuttiComm_t comm, const tuttiEdit_t* edit, const char* words) {
  EXPECT_EQ(tuttiCommEdit(comm, edit, nullptr), tuttiInvalidArgument);
  EXPECT_NE(message_of(comm).find(words), std::string::npos) << message_of(comm);
}

TEST(EditInPlace, RefusesWrongArgumentsAtOnce) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    expect_refused(comm, nullptr, "edit is null");
    const int missing = 2;
    tuttiEdit_t edit = removing(&missing);
    expect_refused(comm, &edit, "removed has 2");
    edit = removing(&rank);
    expect_refused(comm, &edit, "removes the rank that calls it");
    edit.remove_dead = 1;
    expect_refused(comm, &edit, "not both");
    edit = TUTTI_EDIT_INITIALIZER;
    edit.removed_count = 1;
    expect_refused(comm, &edit, "removed is null");
    edit = TUTTI_EDIT_INITIALIZER;
    edit.newcomers = -1;
    expect_refused(comm, &edit, "negative");
    edit = TUTTI_EDIT_INITIALIZER;
    edit.size = 0;
    expect_refused(comm, &edit, "size");
    tuttiMemberId id;
    uint32_t epoch = 0;
    EXPECT_EQ(tuttiCommGetMemberId(comm, 2, &id), tuttiInvalidArgument);
    EXPECT_EQ(tuttiCommGetMemberId(comm, 0, nullptr), tuttiInvalidArgument);
    EXPECT_EQ(tuttiCommGetEpoch(comm, nullptr), tuttiInvalidArgument);
    EXPECT_EQ(tuttiCommGetEpoch(nullptr, &epoch), tuttiInvalidArgument);
    EXPECT_EQ(sum_over(comm, rank), 1);
  });
  tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
  EXPECT_EQ(tuttiCommEdit(nullptr, &edit, nullptr), tuttiInvalidArgument);
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  tuttiComm_t comm = nullptr;
  EXPECT_EQ(tuttiCommJoin(&comm, &id, nullptr), tuttiInvalidArgument);
  EXPECT_NE(message_of(nullptr).find("leads to no communicator"), std::string::npos);
  EXPECT_EQ(tuttiCommJoin(nullptr, &id, nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiCommJoin(&comm, nullptr, nullptr), tuttiInvalidArgument);
}

}  // namespace
}  // namespace tutti::api_test
