// One thread registers memory and windows for several ranks: in a group, which ends with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"

namespace tutti::api_test {
namespace {

constexpr int kRanks = 3;
constexpr size_t kBytes = 64 * 1024;
constexpr size_t kCount = kBytes / 2 / sizeof(int);

/// The ranks of one thread, each with memory that the others can map.
class GroupedRegistrations : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(tuttiCommInitAll(comms_, kRanks, nullptr), tuttiSuccess) << message_of(nullptr);
    for (void*& memory : memory_) {
      ASSERT_EQ(tuttiMemAlloc(&memory, kBytes), tuttiSuccess);
      std::memset(memory, 0, kBytes);
    }
  }
  void TearDown() override {
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (tuttiComm_t comm : comms_) EXPECT_OK(tuttiCommDestroy(comm), comm);
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    for (void* memory : memory_) EXPECT_EQ(tuttiMemFree(memory), tuttiSuccess);
  }

  int* ints(int rank) { return static_cast<int*>(memory_[rank]); }
  void register_windows(tuttiWindow_t* windows) {
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_OK(tuttiCommWindowRegister(comms_[rank], memory_[rank], kBytes, &windows[rank], 0),
                comms_[rank]);
    }
  }
  void deregister(tuttiWindow_t* windows) {
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_OK(tuttiCommWindowDeregister(comms_[rank], windows[rank]), comms_[rank]);
    }
  }
  void all_reduce_in_place() {
    for (int rank = 0; rank < kRanks; ++rank) {
      std::fill_n(ints(rank), kCount, rank + 1);
      EXPECT_OK(tuttiAllReduce(ints(rank), ints(rank), kCount, tuttiInt32, tuttiSum, comms_[rank],
                               tuttiBlocking()),
                comms_[rank]);
    }
  }
  bool is_summed(int rank) {
    return std::all_of(ints(rank), ints(rank) + kCount, [](int value) { return value == 6; });
  }

  tuttiComm_t comms_[kRanks] = {};
  void* memory_[kRanks] = {};
};

TEST_F(GroupedRegistrations, AreThereWhenTheGroupEnds) {
  void* handles[kRanks] = {};
  tuttiWindow_t first[kRanks] = {}, second[kRanks] = {};
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  all_reduce_in_place();  // before them in the text, behind them in time
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_OK(tuttiCommRegister(comms_[rank], memory_[rank], kBytes, &handles[rank]), comms_[rank]);
  }
  register_windows(first);
  register_windows(second);
  EXPECT_EQ(first[0], nullptr);
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << message_of(nullptr);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_TRUE(is_summed(rank)) << rank;
    EXPECT_NE(handles[rank], nullptr);
    ASSERT_NE(first[rank], nullptr);
    ASSERT_NE(second[rank], nullptr);
    EXPECT_NE(first[rank], second[rank]);
  }
  const int sent = 77;
  EXPECT_OK(tuttiPut(&sent, sizeof sent, 2, second[0], 8, tuttiBlocking()), comms_[0]);
  EXPECT_EQ(ints(2)[2], 77);
  deregister(first);
  deregister(second);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_OK(tuttiCommDeregister(comms_[rank], handles[rank]), comms_[rank]);
  }
}

// It takes part, so that nobody waits for it; what follows on the communicators is made.
TEST_F(GroupedRegistrations, ABadPartIsTheGroupsErrorAndTheRestIsMade) {
  tuttiWindow_t bad[kRanks] = {}, good[kRanks] = {};
  void* handles[kRanks] = {memory_, memory_, memory_};
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (int rank = 0; rank < kRanks; ++rank) {  // not of one size
    const size_t bytes = kBytes - (rank == 1 ? 4096 : 0);
    EXPECT_OK(tuttiCommRegister(comms_[rank], memory_[rank], bytes, &handles[rank]), comms_[rank]);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    void* const base = rank == 1 ? nullptr : memory_[rank];
    EXPECT_OK(tuttiCommWindowRegister(comms_[rank], base, kBytes, &bad[rank], 0), comms_[rank]);
  }
  register_windows(good);
  all_reduce_in_place();
  const tuttiResult_t result = tuttiGroupEnd();
  EXPECT_TRUE(result == tuttiInvalidArgument || result == tuttiInvalidUsage) << result;
  EXPECT_FALSE(message_of(nullptr).empty());
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(bad[rank], nullptr) << rank;
    EXPECT_EQ(handles[rank], nullptr) << rank;
    EXPECT_NE(good[rank], nullptr) << rank;
    EXPECT_TRUE(is_summed(rank)) << rank;
  }
  deregister(good);
}

TEST_F(GroupedRegistrations, ARefusedOrSimulatedGroupMakesNone) {
  tuttiWindow_t windows[kRanks] = {};
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  register_windows(windows);
  EXPECT_EQ(tuttiBarrier(nullptr, tuttiBlocking()), tuttiInvalidArgument);
  EXPECT_REFUSED(tuttiGroupEnd(), tuttiInvalidArgument, nullptr);
  EXPECT_EQ(windows[0], nullptr);

  uint64_t nanoseconds = 0;
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  register_windows(windows);
  EXPECT_REFUSED(tuttiGroupSimulateEnd(&nanoseconds), tuttiInvalidUsage, nullptr);
  EXPECT_EQ(windows[0], nullptr);

  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  register_windows(windows);
  EXPECT_EQ(tuttiGroupDiscard(), tuttiSuccess);
  EXPECT_EQ(windows[0], nullptr);
}

TEST_F(GroupedRegistrations, KeepTheirCommunicatorUntilTheGroupEnds) {
  tuttiWindow_t windows[kRanks] = {};
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  register_windows(windows);
  EXPECT_REFUSED(tuttiCommDestroy(comms_[0]), tuttiInvalidUsage, comms_[0]);
  EXPECT_EQ(tuttiGroupDiscard(), tuttiSuccess);
}

// The group's operations use a window that another thread ends meanwhile: the registration, which
// runs first, does not free it.
TEST_F(GroupedRegistrations, LeaveAWindowThatTheGroupUses) {
  tuttiWindow_t old[kRanks] = {}, windows[kRanks] = {};
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  register_windows(old);
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << message_of(nullptr);
  const int sent = 77;
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_OK(tuttiPut(&sent, sizeof sent, 0, old[0], 0, tuttiBlocking()), comms_[0]);
  std::thread([&] { deregister(old); }).join();
  register_windows(windows);
  EXPECT_REFUSED(tuttiGroupEnd(), tuttiInvalidUsage, nullptr);
  EXPECT_EQ(ints(0)[0], 0);
  for (tuttiWindow_t window : windows) ASSERT_NE(window, nullptr);
  deregister(windows);
}

}  // namespace
}  // namespace tutti::api_test
