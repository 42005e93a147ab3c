// A communicator that fails on one rank while others are in an edit of it already: nobody waits for
// a rank that cannot come. Ranks as threads.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "tests/api/crowd.h"

namespace tutti::api_test {
namespace {

constexpr int kRanks = 3;

// One rank's communicator fails by a call that nobody answers, when the others have begun `edit`,
// which it calls then. All of them are told, and shrink to go on.
template <class Edit>
void expect_all_told(int late, Edit edit) {
  std::array<std::atomic<tuttiComm_t>, kRanks> comms{};
  run_ranks(kRanks, [&](tuttiComm_t& comm, int rank) {
    comms[static_cast<size_t>(rank)] = comm;
    if (rank == late) {
      for (const auto& other : comms) {
        while (other == nullptr) std::this_thread::yield();
        if (other != comm) until_busy(other, true);
      }
      set_deadline(comm, 100);
      int value = 0;
      const int peer = (rank + 1) % kRanks;
      EXPECT_EQ(tuttiRecv(&value, 1, tuttiInt32, peer, comm, tuttiBlocking()), tuttiTimeout);
    }
    tuttiComm_t child = nullptr;
    EXPECT_REFUSED(edit(comm, &child), rank == late ? tuttiTimeout : tuttiRemoteError, nullptr);
    EXPECT_EQ(child, nullptr);
    const char* const wanted = rank == late ? "passed its deadline" : " gave up because of rank ";
    EXPECT_NE(message_of(nullptr).find(wanted), std::string::npos) << message_of(nullptr);
    EXPECT_OK(tuttiCommShrink(comm, nullptr, 0, &child, nullptr, TUTTI_SHRINK_ABORT), nullptr);
    EXPECT_EQ(sum_over(child, 1), kRanks);
    EXPECT_OK(tuttiCommDestroy(child), child);
  });
}

// The meeting is at rank 0, which is late or not.
TEST(EarlyEdits, OfASplitEndWithItsParent) {
  for (int late = 0; late < kRanks; ++late) {
    expect_all_told(late, [](tuttiComm_t comm, tuttiComm_t* child) {
      return tuttiCommSplit(comm, 0, 0, child, nullptr);
    });
  }
}

TEST(EarlyEdits, OfAGrowEndWithItsParent) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  expect_all_told(1, [&](tuttiComm_t comm, tuttiComm_t* child) {
    return tuttiCommGrow(comm, kRanks + 1, &id, -1, child, nullptr);
  });
}

}  // namespace
}  // namespace tutti::api_test
