// Windows and registered memory of ranks that are threads, when the members of their communicator
// change. Processes, networks and dead ranks: tests/kill/window_edits_main.cc.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"

namespace tutti::api_test {
namespace {

constexpr size_t kBytes = 4096;
constexpr size_t kCount = kBytes / sizeof(int);

class OwnedMemory {
 public:
  OwnedMemory() { EXPECT_EQ(tuttiMemAlloc(&memory_, kBytes), tuttiSuccess); }
  ~OwnedMemory() { EXPECT_EQ(tuttiMemFree(memory_), tuttiSuccess); }
  int* ints() const { return static_cast<int*>(memory_); }

 private:
  void* memory_ = nullptr;
};

tuttiWindow_t open(tuttiComm_t comm, int* part) {
  tuttiWindow_t window = nullptr;
  EXPECT_EQ(tuttiCommWindowRegister(comm, part, kBytes, &window, 0), tuttiSuccess)
      << message_of(nullptr);
  return window;
}

void put(tuttiWindow_t window, int value, int peer, size_t place, uint32_t signal) {
  EXPECT_EQ(tuttiPutSignal(&value, sizeof value, peer, window, place * sizeof value, signal,
                           tuttiBlocking()),
            tuttiSuccess)
      << message_of(nullptr);
}

tuttiResult_t await(tuttiWindow_t window, int peer, uint32_t signal, uint64_t times) {
  return tuttiWaitSignal(peer, window, signal, times, tuttiBlocking());
}

uint32_t number_of(tuttiWindow_t window) {
  uint32_t number = 0;
  EXPECT_EQ(tuttiWindowGetNumber(window, &number), tuttiSuccess);
  return number;
}

tuttiEditReport_t edit(tuttiComm_t comm, const std::vector<int>& order) {
  tuttiEdit_t wish = TUTTI_EDIT_INITIALIZER;
  wish.order = order.data();
  wish.order_count = static_cast<int>(order.size());
  tuttiEditReport_t report = {};
  report.size = sizeof report;
  EXPECT_EQ(tuttiCommEdit(comm, &wish, &report), tuttiSuccess) << message_of(nullptr);
  return report;
}

TEST(EditedWindows, StayOpenAndTheirSignalsBelongToMembers) {
  run_ranks(4, [](tuttiComm_t& comm, int rank) {
    const OwnedMemory memory;
    std::vector<int> ordinary(kCount, -1);
    tuttiWindow_t const one = open(comm, memory.ints()), two = open(comm, ordinary.data());
    const uint32_t numbers[] = {number_of(one), number_of(two)};
    EXPECT_LT(numbers[0], numbers[1]);
    // Rank 3 tells rank 0 twice, which waits for one of these; rank 2 tells itself.
    if (rank == 3) {
      put(one, 31, 0, 3, 5);
      put(two, 32, 0, 3, 5);
      put(two, 33, 0, 4, 5);
    }
    if (rank == 2) put(two, 22, 2, 2, 1);
    if (rank == 0) {
      EXPECT_EQ(await(two, 3, 5, 1), tuttiSuccess);
    }
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
    if (rank == 1) return;
    const tuttiEditReport_t report = edit(comm, {3, 2, 0});
    EXPECT_EQ(report.windows_kept, 2);
    EXPECT_EQ(report.registrations_kept, 0);
    EXPECT_EQ(number_of(one), numbers[0]);
    EXPECT_EQ(number_of(two), numbers[1]);
    if (rank == 0) {
      EXPECT_EQ(await(one, 0, 5, 1), tuttiSuccess);  // that of rank 3, which is rank 0 now
      EXPECT_EQ(await(two, 0, 5, 1), tuttiSuccess);
      EXPECT_EQ(memory.ints()[3], 31);
      EXPECT_EQ(ordinary[3], 32);
      EXPECT_EQ(ordinary[4], 33);
    }
    if (rank == 2) {
      EXPECT_EQ(await(two, 1, 1, 1), tuttiSuccess);
    }
    // In the new epoch everybody puts to everybody.
    for (int peer = 0; peer < 3; ++peer) {
      put(one, 100 + report.rank, peer, 10 + static_cast<size_t>(report.rank), 7);
    }
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(await(one, peer, 7, 1), tuttiSuccess);
      EXPECT_EQ(memory.ints()[10 + peer], 100 + peer);
    }
    int value = 0;
    EXPECT_EQ(tuttiPut(&value, sizeof value, 3, one, 0, tuttiBlocking()), tuttiInvalidArgument);
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
    EXPECT_OK(tuttiCommWindowDeregister(comm, one), comm);
    EXPECT_OK(tuttiCommWindowDeregister(comm, two), comm);
    // One that is made now has another number, and those that were closed are not found again.
    tuttiWindow_t const three = open(comm, memory.ints());
    EXPECT_GT(number_of(three), numbers[1]);
    EXPECT_EQ(edit(comm, {0, 1, 2}).windows_kept, 1);
    EXPECT_OK(tuttiCommWindowDeregister(comm, three), comm);
  });
}

TEST(EditedWindows, WhoHasEndedItsPartIsRefusedAfterwardsToo) {
  run_ranks(3, [](tuttiComm_t& comm, int rank) {
    const OwnedMemory memory;
    tuttiWindow_t const window = open(comm, memory.ints());
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
    if (rank == 2) {
      EXPECT_OK(tuttiCommWindowDeregister(comm, window), comm);
    }
    EXPECT_EQ(edit(comm, {2, 1, 0}).windows_kept, rank == 2 ? 0 : 1);
    if (rank == 2) return;
    int value = 5;
    EXPECT_EQ(tuttiPut(&value, sizeof value, 0, window, 0, tuttiBlocking()), tuttiInvalidUsage);
    const int now = 2 - rank;
    put(window, 50 + now, 3 - now, 1, 0);
    EXPECT_EQ(await(window, 3 - now, 0, 1), tuttiSuccess);
    EXPECT_EQ(memory.ints()[1], 50 + 3 - now);
  });
}

TEST(EditedWindows, RegisteredMemoryStaysWhereAllMembersHaveIt) {
  run_ranks(3, [](tuttiComm_t& comm, int rank) {
    const OwnedMemory memory, other;
    void *handle = nullptr, *dropped = nullptr;
    EXPECT_OK(tuttiCommRegister(comm, memory.ints(), kBytes, &handle), comm);
    EXPECT_OK(tuttiCommRegister(comm, other.ints(), kBytes, &dropped), comm);
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
    if (rank == 0) {
      EXPECT_OK(tuttiCommDeregister(comm, dropped), comm);
    }
    if (rank == 1) return;
    const tuttiEditReport_t report = edit(comm, {2, 0});
    EXPECT_EQ(report.registrations_kept, 1);
    for (size_t i = 0; i < kCount; ++i) memory.ints()[i] = rank + 1;
    EXPECT_OK(tuttiAllReduce(memory.ints(), memory.ints(), kCount, tuttiInt32, tuttiSum, comm,
                             tuttiBlocking()),
              comm);
    EXPECT_EQ(memory.ints()[kCount - 1], 4);
    EXPECT_OK(tuttiCommDeregister(comm, handle), comm);
    EXPECT_EQ(tuttiCommDeregister(comm, handle), tuttiInvalidUsage);
    EXPECT_EQ(tuttiCommDeregister(comm, dropped), rank == 0 ? tuttiInvalidUsage : tuttiSuccess);
    EXPECT_OK(tuttiCommRegister(comm, other.ints(), kBytes, &dropped), comm);
    EXPECT_EQ(sum_over(comm, rank), 2);
  });
}

void join_with_windows(const tuttiUniqueId& id) {
  std::array<OwnedMemory, 2> memory;
  tuttiWindowPart_t parts[] = {{memory[0].ints(), kBytes, nullptr},
                               {memory[1].ints(), kBytes, nullptr}};
  tuttiComm_t joined = nullptr;
  ASSERT_EQ(tuttiCommJoinWindows(&joined, &id, nullptr, parts, 2), tuttiSuccess)
      << message_of(nullptr);
  ASSERT_NE(parts[0].window, nullptr);
  EXPECT_EQ(parts[1].window, nullptr);
  put(parts[0].window, 77, 0, 1, 3);
  put(parts[0].window, 78, 2, 1, 3);
  EXPECT_EQ(await(parts[0].window, 0, 3, 1), tuttiSuccess);
  EXPECT_EQ(memory[0].ints()[2], 90);
  EXPECT_OK(tuttiBarrier(joined, tuttiBlocking()), joined);
  EXPECT_OK(tuttiCommDestroy(joined), joined);
}

TEST(EditedWindows, NewcomersBringTheirPartsAndBeginAtNought) {
  tuttiUniqueId id;
  std::thread newcomer;
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    const OwnedMemory memory;
    void* handle = nullptr;
    tuttiWindow_t const closed = open(comm, memory.ints()), window = open(comm, memory.ints());
    EXPECT_OK(tuttiCommRegister(comm, memory.ints(), kBytes, &handle), comm);
    put(window, 11, 1 - rank, 0, 3);  // a signal of the member that the newcomer's number had
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
    EXPECT_OK(tuttiCommWindowDeregister(comm, closed), comm);
    if (rank == 0) {
      ASSERT_EQ(tuttiCommGetUniqueId(comm, &id), tuttiSuccess);
      newcomer = std::thread([&id] { join_with_windows(id); });
    }
    const tuttiEditReport_t report = edit(comm, {0, TUTTI_NEWCOMER, 1});
    EXPECT_EQ(report.windows_kept, 1);
    EXPECT_EQ(report.registrations_kept, 0);
    if (rank == 0) put(window, 90, 1, 2, 3);
    EXPECT_EQ(await(window, 1, 3, 1), tuttiSuccess);
    EXPECT_EQ(memory.ints()[1], rank == 0 ? 77 : 78);
    EXPECT_EQ(await(window, 2 - 2 * rank, 3, 1), tuttiSuccess);  // from before the edit
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
    EXPECT_OK(tuttiCommDeregister(comm, handle), comm);
  });
  newcomer.join();
}

TEST(EditedWindows, JoiningRefusesWrongParts) {
  tuttiUniqueId id;
  run_ranks(1, [&](tuttiComm_t& comm, int) {
    ASSERT_EQ(tuttiCommGetUniqueId(comm, &id), tuttiSuccess);
    tuttiComm_t joined = nullptr;
    tuttiWindowPart_t part = {nullptr, 8, nullptr};
    EXPECT_EQ(tuttiCommJoinWindows(&joined, &id, nullptr, &part, 1), tuttiInvalidArgument);
    EXPECT_EQ(tuttiCommJoinWindows(&joined, &id, nullptr, nullptr, 1), tuttiInvalidArgument);
    EXPECT_EQ(tuttiCommJoinWindows(&joined, &id, nullptr, &part, -1), tuttiInvalidArgument);
    uint32_t number = 0;
    EXPECT_EQ(tuttiWindowGetNumber(nullptr, &number), tuttiInvalidArgument);
  });
}

}  // namespace
}  // namespace tutti::api_test
