// Groups that hold sends and receives of one communicator and nothing else run without tasks; what
// else a group may hold turns them into one. Either way the same happens.
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"

namespace tutti::api_test {
namespace {

constexpr uint64_t kHangMs = 60'000;

/// One value to the other of two ranks and one from it.
struct Swap {
  int mine = 0, other = 0;

  void call(tuttiComm_t comm, int rank, tuttiStream_t stream = tuttiBlocking()) {
    mine = rank + 1;
    EXPECT_OK(tuttiSend(&mine, 1, tuttiInt32, 1 - rank, comm, stream), comm);
    EXPECT_OK(tuttiRecv(&other, 1, tuttiInt32, 1 - rank, comm, stream), comm);
  }
  void expect_done(int rank, const char* what) const { EXPECT_EQ(other, 2 - rank) << what; }
};

/// Other calls that a group may hold beside `swap`, and whether `swap` was part of it.
struct Company {
  const char* what;
  std::function<void(Swap& swap)> add;
  bool swaps = false;
};

void run_beside(tuttiComm_t comm, int rank, const Company& company, bool plain_first) {
  Swap first, second, third;
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  if (plain_first) first.call(comm, rank);
  company.add(second);
  third.call(comm, rank);
  EXPECT_OK(tuttiGroupEnd(), nullptr);
  if (plain_first) first.expect_done(rank, company.what);
  if (company.swaps) second.expect_done(rank, company.what);
  third.expect_done(rank, company.what);
}

TEST(PlainGroups, BesideWhateverElseAGroupHolds) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    const tuttiStream_t blocking = tuttiBlocking();
    set_deadline(comm, kHangMs);
    tuttiStream_t queue;
    ASSERT_EQ(tuttiStreamCreate(&queue), tuttiSuccess);
    tuttiComm_t twin = nullptr, made = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, 0, rank, &twin, nullptr), tuttiSuccess) << message_of(comm);
    int one = 1, sum = 0;
    const auto reduce = [&](tuttiComm_t on) {
      EXPECT_OK(tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, on, blocking), on);
    };
    const std::vector<Company> companies = {
        {"nothing", [](Swap&) {}},
        {"others' transfers", [&](Swap& swap) { swap.call(twin, rank); }, true},
        {"transfers of a stream", [&](Swap& swap) { swap.call(comm, rank, queue); }, true},
        {"a collective", [&](Swap&) { reduce(comm); }},
        {"another's collective", [&](Swap&) { reduce(twin); }},
        {"a new communicator",
         [&](Swap&) {
           tuttiUniqueId id;
           EXPECT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
           EXPECT_OK(tuttiCommInitRank(&made, 1, id, 0), nullptr);
         }},
    };
    for (const Company& company : companies) {
      for (const bool plain_first : {true, false}) {
        run_beside(comm, rank, company, plain_first);
        EXPECT_OK(tuttiStreamSynchronize(queue), nullptr);
        if (made == nullptr) continue;
        EXPECT_OK(tuttiCommDestroy(made), nullptr);
        made = nullptr;
      }
    }
    EXPECT_EQ(sum, 2);
    EXPECT_OK(tuttiStreamDestroy(queue), nullptr);
    EXPECT_OK(tuttiCommDestroy(twin), nullptr);
  });
}

// The least timeout of the calls counts, each as it was when the call was made.
TEST(PlainGroups, OptionsAreThoseOfEachCall) {
  constexpr uint64_t kHourMs = 3'600'000;
  for (const bool last_is_short : {false, true}) {
    run_ranks(2, [&](tuttiComm_t& comm, int rank) {
      if (rank == 1) return;
      int first = 0, second = 0;
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      set_deadline(comm, last_is_short ? kHourMs : 50);
      EXPECT_OK(tuttiRecv(&first, 1, tuttiInt32, 1, comm, tuttiBlocking()), comm);
      set_deadline(comm, last_is_short ? 50 : kHourMs);
      EXPECT_OK(tuttiRecv(&second, 1, tuttiInt32, 1, comm, tuttiBlocking()), comm);
      set_deadline(comm, kHourMs);
      EXPECT_REFUSED(tuttiGroupEnd(), tuttiTimeout, nullptr);
    });
  }
}

TEST(PlainGroups, ACommunicatorThatEndsBeforeTheGroup) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    Swap swap;
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    swap.call(comm, rank);
    std::thread other([&] { EXPECT_OK(tuttiCommAbort(comm), nullptr); });
    other.join();
    EXPECT_REFUSED(tuttiGroupEnd(), tuttiInvalidUsage, nullptr);
    comm = nullptr;
  });
}

TEST(PlainGroups, BehindWhatIsQueued) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    tuttiStream_t queue;
    ASSERT_EQ(tuttiStreamCreate(&queue), tuttiSuccess);
    std::vector<int> values(1 << 18, 1);
    Swap before, swap;
    for (int i = 0; i < 20; ++i) {
      EXPECT_OK(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiInt32, tuttiMax,
                               comm, queue),
                comm);
    }
    before.call(comm, rank, queue);
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    swap.call(comm, rank);
    EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess);
    EXPECT_EQ(swap.other, 0) << "the outer group is open";
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    before.expect_done(rank, "what was queued");
    swap.expect_done(rank, "the group");
    EXPECT_OK(tuttiStreamDestroy(queue), nullptr);
  });
}

TEST(PlainGroups, AThreadThatEndsDiscardsIts) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    Swap lost, swap;
    std::thread([&] {
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      lost.call(comm, rank);
    }).join();
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    swap.call(comm, rank);
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    swap.expect_done(rank, "the group");
    EXPECT_EQ(lost.other, 0);
  });
}

TEST(PlainGroups, ADiscardedOneLeavesNothing) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    Swap lost, swap;
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    lost.call(comm, rank);
    EXPECT_OK(tuttiGroupDiscard(), nullptr);
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    EXPECT_EQ(lost.other, 0);
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    swap.call(comm, rank);
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    swap.expect_done(rank, "the next group");
  });
}

TEST(PlainGroups, ARefusedCallMeansThatNothingRuns) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    Swap lost;
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    lost.call(comm, rank);
    EXPECT_EQ(tuttiSend(&rank, 1, tuttiInt32, 2, comm, tuttiBlocking()), tuttiInvalidArgument);
    EXPECT_REFUSED(tuttiGroupEnd(), tuttiInvalidArgument, nullptr);
    EXPECT_EQ(lost.other, 0);
    EXPECT_EQ(sum_over(comm, 1), 2) << "the ranks are still together";
  });
}

}  // namespace
}  // namespace tutti::api_test
