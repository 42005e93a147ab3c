// Several communicators; HOST streams; abort; every call in place.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"
#include "tests/random/issue.h"
#include "tests/random/memory.h"
#include "tests/support/subprocess.h"

namespace tutti::api_test {
namespace {

using random_calls::Call;
using random_calls::CallMemory;
using reference::Collective;

void expect_right(std::vector<std::string> arguments) {
  const auto outcome = testing_support::run_program("several", arguments, 240);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(Several, CommunicatorsOnHostStreamsAsProcesses) { expect_right({"--network", "default"}); }
TEST(Several, CommunicatorsOnHostStreamsAsThreads) { expect_right({"--threads", "1"}); }
TEST(Several, CommunicatorsOverOneTcpPair) { expect_right({"--network", "tcp"}); }

TEST(Several, AHostStreamKeepsItsOrder) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    tuttiStream_t stream;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    int64_t value = rank + 1;
    for (int i = 0; i < 10; ++i) {
      EXPECT_OK(tuttiAllReduce(&value, &value, 1, tuttiInt64, tuttiSum, comm, stream), comm);
    }
    EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
    EXPECT_EQ(value, 3 << 9);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  });
}

TEST(Several, DestroyingAStreamSynchronizes) {
  run_ranks(2, [](tuttiComm_t& comm, int) {
    tuttiStream_t stream;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    int value = 1, sum = 0;
    EXPECT_OK(tuttiAllReduce(&value, &sum, 1, tuttiInt32, tuttiSum, comm, stream), comm);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(sum, 2);
  });
}

TEST(Several, SynchronizeReturnsTheErrorOfAQueuedCall) {
  std::atomic<bool> over{false};
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    if (rank == 1) {
      while (!over.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    tuttiStream_t stream;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    set_deadline(comm, 50);
    int value = 1, sum = 0;
    EXPECT_OK(tuttiAllReduce(&value, &sum, 1, tuttiInt32, tuttiSum, comm, stream), comm);
    EXPECT_REFUSED(tuttiStreamSynchronize(stream), tuttiTimeout, nullptr);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    over.store(true);
  });
}

// The other rank is in a call, or comes to it later: both must end with tuttiRemoteError.
TEST(Several, AbortEndsTheCallsOfPeers) {
  for (const int late_ms : {0, 30}) {
    run_ranks(3, [&](tuttiComm_t& comm, int rank) {
      set_deadline(comm, 60'000);
      if (rank == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(15));
        EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
        comm = nullptr;
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(late_ms));
      std::vector<int> value(50'000, 1), sum(50'000);
      EXPECT_REFUSED(tuttiAllReduce(value.data(), sum.data(), 50'000, tuttiInt32, tuttiSum, comm,
                                    tuttiBlocking()),
                     tuttiRemoteError, comm);
      EXPECT_NE(message_of(comm).find("rank 1"), std::string::npos) << message_of(comm);
    });
  }
}

TEST(Several, EveryCallInPlace) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    run_ranks(ranks, [&](tuttiComm_t& comm, int rank) {
      for (int i = 0; i + 1 < reference::kCollectives; ++i) {
        for (const uint64_t count : {0, 1, 5, 1000, 60'001}) {
          Call call;
          call.problem = {.collective = static_cast<Collective>(i),
                          .type = tuttiInt64,
                          .op = tuttiMax,
                          .ranks = ranks,
                          .root = ranks - 1,
                          .count = count};
          reference::spread_counts(call.problem, true);
          call.in_place = true;
          call.seed = count * 2 + static_cast<uint64_t>(i);
          CallMemory memory(call, rank, nullptr);
          EXPECT_OK(random_calls::issue(call.problem, memory.send(), memory.recv(), comm,
                                        tuttiBlocking()),
                    comm);
          EXPECT_EQ(memory.check(), "") << random_calls::describe(call);
        }
      }
    });
  }
}

// Whether its buffers are one is each rank's own affair. Of the collectives only all_to_all has to
// know for long messages: in place, a block is overwritten which a peer could else read there.
TEST(Several, RanksPlaceTheirBuffersAsTheyLike) {
  run_ranks(4, [&](tuttiComm_t& comm, int rank) {
    for (int i = 0; i + 1 < reference::kCollectives; ++i) {
      for (const uint64_t count : {5, 1000, 60'001}) {
        Call call;
        call.problem = {.collective = static_cast<Collective>(i),
                        .type = tuttiInt64,
                        .op = tuttiMax,
                        .ranks = 4,
                        .root = 1,
                        .count = count};
        reference::spread_counts(call.problem, true);
        if (call.problem.collective == Collective::kAllToAll && count > 5) continue;
        call.in_place = rank % 2 == 0;
        call.seed = count * 2 + static_cast<uint64_t>(i);
        CallMemory memory(call, rank, nullptr);
        ASSERT_EQ(
            random_calls::issue(call.problem, memory.send(), memory.recv(), comm, tuttiBlocking()),
            tuttiSuccess)
            << message_of(comm) << random_calls::describe(call);
        EXPECT_EQ(memory.check(), "") << random_calls::describe(call);
      }
    }
  });
}

// The library ignores what other ranks pass for the buffer that only the root has.
TEST(Several, OnlyTheRootKnowsWhetherItsCallIsInPlace) {
  run_ranks(3, [](tuttiComm_t& comm, int rank) {
    for (const size_t count : {10u, 50'000u}) {
      std::vector<int> data(count, rank);
      const void* send = rank == 1 ? data.data() : nullptr;
      EXPECT_OK(tuttiBroadcast(send, data.data(), count, tuttiInt32, 1, comm, tuttiBlocking()),
                comm);
      EXPECT_EQ(data, std::vector<int>(count, 1));
    }
  });
}

}  // namespace
}  // namespace tutti::api_test
