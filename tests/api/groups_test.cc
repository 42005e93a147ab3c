// Groups: nesting, errors, several calls of one communicator, several communicators, transfers.
#include <gtest/gtest.h>
#include <pthread.h>

#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"

namespace tutti::api_test {
namespace {

constexpr size_t kLarge = 200'000;  // more than any buffer between two ranks holds
constexpr uint64_t kHangMs = 60'000;

std::vector<int> numbers(size_t count, int first) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(Groups, EndWithoutStart) {
  EXPECT_REFUSED(tuttiGroupEnd(), tuttiInvalidUsage, nullptr);
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess);
  EXPECT_REFUSED(tuttiGroupEnd(), tuttiInvalidUsage, nullptr);
}

TEST(Groups, OnlyTheOutermostEndRuns) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    int send = rank + 1, first = 0, second = 0;
    const tuttiStream_t stream = tuttiBlocking();
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_OK(tuttiAllReduce(&send, &first, 1, tuttiInt32, tuttiSum, comm, stream), comm);
    EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess);
    EXPECT_EQ(first, 0);
    EXPECT_OK(tuttiAllReduce(&send, &second, 1, tuttiInt32, tuttiProd, comm, stream), comm);
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    EXPECT_EQ(first, 3);
    EXPECT_EQ(second, 2);
  });
}

TEST(Groups, ARefusedCallMeansThatNothingRuns) {
  run_ranks(2, [](tuttiComm_t& comm, int) {
    int send = 1, recv = 0;
    const tuttiStream_t stream = tuttiBlocking();
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    const tuttiResult_t wrong =
        tuttiAllReduce(nullptr, &recv, 1, tuttiInt32, tuttiSum, comm, stream);
    EXPECT_OK(tuttiAllReduce(&send, &recv, 1, tuttiInt32, tuttiSum, comm, stream), comm);
    EXPECT_EQ(wrong, tuttiInvalidArgument);
    EXPECT_REFUSED(tuttiGroupEnd(), tuttiInvalidArgument, nullptr);
    EXPECT_NE(message_of(nullptr).find("send is null"), std::string::npos) << message_of(nullptr);
    EXPECT_EQ(recv, 0);
    // The group is closed, and the next one begins without the old error.
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_OK(tuttiAllReduce(&send, &recv, 1, tuttiInt32, tuttiSum, comm, stream), comm);
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    EXPECT_EQ(recv, 2);
  });
}

TEST(Groups, LargeTransfersBothWaysAndToMyself) {
  run_ranks(3, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    const tuttiStream_t stream = tuttiBlocking();
    const std::vector<int> mine = numbers(kLarge, rank * 1000);
    std::vector<std::vector<int>> got(3, std::vector<int>(kLarge, -1));
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_OK(tuttiSend(mine.data(), kLarge, tuttiInt32, peer, comm, stream), comm);
    }
    for (int peer = 0; peer < 3; ++peer) {
      int* target = got[static_cast<size_t>(peer)].data();
      EXPECT_OK(tuttiRecv(target, kLarge, tuttiInt32, peer, comm, stream), comm);
    }
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(got[static_cast<size_t>(peer)], numbers(kLarge, peer * 1000)) << "from " << peer;
    }
  });
}

// Rank 1 has its collective first, rank 0 between its transfers: they progress together.
TEST(Groups, TransfersAndCollectivesInAnyOrder) {
  run_ranks(3, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    const tuttiStream_t stream = tuttiBlocking();
    const std::vector<int> mine = numbers(kLarge, rank);
    std::vector<int> got(kLarge, -1), sum(kLarge, -1);
    const auto reduce = [&] {
      EXPECT_OK(tuttiAllReduce(mine.data(), sum.data(), kLarge, tuttiInt32, tuttiSum, comm, stream),
                comm);
    };
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    if (rank == 0) {
      EXPECT_OK(tuttiSend(mine.data(), kLarge, tuttiInt32, 2, comm, stream), comm);
      reduce();
      EXPECT_OK(tuttiSend(mine.data(), kLarge, tuttiInt32, 1, comm, stream), comm);
    } else {
      if (rank == 1) reduce();
      EXPECT_OK(tuttiRecv(got.data(), kLarge, tuttiInt32, 0, comm, stream), comm);
      if (rank == 2) reduce();
    }
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    EXPECT_EQ(got, rank == 0 ? std::vector<int>(kLarge, -1) : numbers(kLarge, 0));
    EXPECT_EQ(sum[5], 3 * 5 + 3);
  });
}

// It is seen before any operation of the group begins, so the communicator is as usable as before,
// also where the group holds more than sends and receives.
TEST(Groups, SelfTransferWithoutPartner) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    const tuttiStream_t stream = tuttiBlocking();
    int mine = rank + 1, other = 0, sum = 0;
    set_deadline(comm, kHangMs);
    for (const bool reduces : {false, true}) {
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_OK(tuttiSend(&mine, 1, tuttiInt32, rank, comm, stream), comm);
      EXPECT_OK(tuttiSend(&mine, 1, tuttiInt32, 1 - rank, comm, stream), comm);
      if (reduces) {
        EXPECT_OK(tuttiAllReduce(&mine, &sum, 1, tuttiInt32, tuttiSum, comm, stream), comm);
      }
      EXPECT_REFUSED(tuttiGroupEnd(), tuttiInvalidUsage, nullptr);
      EXPECT_NE(message_of(nullptr).find("sends to itself"), std::string::npos);
    }
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_OK(tuttiSend(&mine, 1, tuttiInt32, 1 - rank, comm, stream), comm);
    EXPECT_OK(tuttiRecv(&other, 1, tuttiInt32, 1 - rank, comm, stream), comm);
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    EXPECT_EQ(other, 2 - rank) << "nothing of the refused groups was sent";
  });
}

// Nothing could end it, so it does not begin, and the communicator is as usable as before.
TEST(Groups, SelfTransferOutsideGroupsIsRefused) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    int x = 1, y = 0;
    tuttiStream_t queue;
    EXPECT_OK(tuttiStreamCreate(&queue), nullptr);
    for (const tuttiStream_t stream : {tuttiBlocking(), queue}) {
      EXPECT_REFUSED(tuttiSend(&x, 1, tuttiInt32, 0, comm, stream), tuttiInvalidUsage, comm);
      EXPECT_NE(std::string(tuttiGetLastError(comm)).find("into one group"), std::string::npos);
      EXPECT_REFUSED(tuttiRecv(&y, 1, tuttiInt32, 0, comm, stream), tuttiInvalidUsage, comm);
    }
    EXPECT_OK(tuttiStreamDestroy(queue), nullptr);
    EXPECT_OK(tuttiAllReduce(&x, &y, 1, tuttiInt32, tuttiSum, comm, tuttiBlocking()), comm);
    EXPECT_EQ(y, 1);
  });
}

TEST(Groups, UnequalLengthsAreAnError) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    std::vector<int> buffer(20, 0);
    const tuttiStream_t stream = tuttiBlocking();
    if (rank == 0) {
      // A small message may be on its way before anybody looks at it.
      (void)tuttiSend(buffer.data(), 10, tuttiInt32, 1, comm, stream);
      return;
    }
    EXPECT_REFUSED(tuttiRecv(buffer.data(), 11, tuttiInt32, 0, comm, stream), tuttiInvalidUsage,
                   comm);
    EXPECT_NE(message_of(comm).find("rank 0"), std::string::npos) << message_of(comm);
  });
}

// Every rank names the communicators in another order; without a group that is a deadlock.
TEST(Groups, CommunicatorsInOppositeOrder) {
  tuttiUniqueId ids[2];
  for (tuttiUniqueId& id : ids) ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  run_ranks(2, [&](tuttiComm_t&, int rank) {
    tuttiComm_t comms[2] = {nullptr, nullptr};
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(tuttiCommInitRank(&comms[i], 2, ids[i], rank), tuttiSuccess);
      set_deadline(comms[i], kHangMs);
    }
    const std::vector<int> mine = numbers(kLarge, rank);
    std::vector<int> sums[2] = {std::vector<int>(kLarge), std::vector<int>(kLarge)};
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int turn = 0; turn < 2; ++turn) {
      const int i = rank == 0 ? turn : 1 - turn;
      EXPECT_OK(tuttiAllReduce(mine.data(), sums[i].data(), kLarge, tuttiInt32, tuttiSum, comms[i],
                               tuttiBlocking()),
                comms[i]);
    }
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    for (const auto& sum : sums) EXPECT_EQ(sum[7], 15);
    for (tuttiComm_t comm : comms) EXPECT_OK(tuttiCommDestroy(comm), comm);
  });
}

// A send and a receive of one group belong together on whatever streams they are.
TEST(Groups, TransfersOnTwoStreamsProgressTogether) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    tuttiStream_t streams[2];
    for (auto& stream : streams) ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    const std::vector<int> mine = numbers(kLarge, rank);
    for (const tuttiStream_t& other : {streams[1], tuttiBlocking()}) {
      std::vector<int> got(kLarge, -1);
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_OK(tuttiSend(mine.data(), kLarge, tuttiInt32, 1 - rank, comm, streams[0]), comm);
      EXPECT_OK(tuttiRecv(got.data(), kLarge, tuttiInt32, 1 - rank, comm, other), comm);
      EXPECT_OK(tuttiGroupEnd(), nullptr);
      // Each stream waits for what was asked on it.
      EXPECT_OK(tuttiStreamSynchronize(other), nullptr);
      EXPECT_EQ(got, numbers(kLarge, 1 - rank));
    }
    for (tuttiStream_t stream : streams) EXPECT_OK(tuttiStreamDestroy(stream), nullptr);
  });
}

// In a group, the calls on one stream do not wait for each other; what follows waits for all.
TEST(Groups, CommunicatorsInOppositeOrderOnOneStream) {
  tuttiUniqueId ids[2];
  for (tuttiUniqueId& id : ids) ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  run_ranks(2, [&](tuttiComm_t& first, int rank) {
    tuttiStream_t stream;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    tuttiComm_t comms[2] = {nullptr, nullptr};
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(tuttiCommInitRank(&comms[i], 2, ids[i], rank), tuttiSuccess);
      set_deadline(comms[i], kHangMs);
    }
    std::vector<int> values[2] = {numbers(kLarge, rank), numbers(kLarge, rank)};
    int sum = 0;
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int turn = 0; turn < 2; ++turn) {
      const int i = rank == 0 ? turn : 1 - turn;
      EXPECT_OK(tuttiAllReduce(values[i].data(), values[i].data(), kLarge, tuttiInt32, tuttiSum,
                               comms[i], stream),
                comms[i]);
    }
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    EXPECT_OK(tuttiAllReduce(&values[1][7], &sum, 1, tuttiInt32, tuttiSum, first, stream), first);
    EXPECT_OK(tuttiStreamSynchronize(stream), nullptr);
    EXPECT_EQ(values[0][7], 15);
    EXPECT_EQ(sum, 30);
    for (tuttiComm_t comm : comms) EXPECT_OK(tuttiCommDestroy(comm), comm);
    EXPECT_OK(tuttiStreamDestroy(stream), nullptr);
  });
}

// Rank 1 does what rank 0 has queued only behind what rank 0's group has of the other communicator.
TEST(Groups, AreNotBehindAllThatAHostStreamHolds) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  run_ranks(2, [&](tuttiComm_t& queued, int rank) {
    tuttiComm_t other = nullptr;
    ASSERT_EQ(tuttiCommInitRank(&other, 2, id, rank), tuttiSuccess);
    for (tuttiComm_t comm : {queued, other}) set_deadline(comm, kHangMs);
    tuttiStream_t stream = tuttiBlocking();
    if (rank == 0) {
      ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    }
    int values[3] = {rank + 1, rank + 1, rank + 1};
    const auto sum = [&](int which, tuttiComm_t comm, tuttiStream_t where) {
      EXPECT_OK(
          tuttiAllReduce(&values[which], &values[which], 1, tuttiInt32, tuttiSum, comm, where),
          comm);
    };
    if (rank == 0) {
      sum(0, queued, stream);
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      sum(1, other, tuttiBlocking());
      sum(2, queued, tuttiBlocking());
      EXPECT_OK(tuttiGroupEnd(), nullptr);
      EXPECT_OK(tuttiStreamSynchronize(stream), nullptr);
      EXPECT_OK(tuttiStreamDestroy(stream), nullptr);
    } else {
      sum(1, other, stream);
      sum(0, queued, stream);
      sum(2, queued, stream);
    }
    for (const int value : values) EXPECT_EQ(value, 3);
    EXPECT_OK(tuttiCommDestroy(other), other);
  });
}

// How either side cuts its transfers into calls, groups and streams is its own affair.
TEST(Groups, TransfersPairInOrderAcrossCallsAndGroups) {
  constexpr int kMessages = 12;
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    tuttiStream_t queue;
    ASSERT_EQ(tuttiStreamCreate(&queue), tuttiSuccess);
    std::vector<std::vector<int>> buffers;
    for (int i = 0; i < kMessages; ++i) {
      // Every third is longer than what lies between two ranks.
      const size_t count = i % 3 == 2 ? 100'000 : static_cast<size_t>(i + 1);
      buffers.push_back(rank == 0 ? numbers(count, 100 * i) : std::vector<int>(count, -1));
    }
    const auto transfer = [&](int i, tuttiStream_t stream) {
      std::vector<int>& buffer = buffers[static_cast<size_t>(i)];
      EXPECT_OK(rank == 0 ? tuttiSend(buffer.data(), buffer.size(), tuttiInt32, 1, comm, stream)
                          : tuttiRecv(buffer.data(), buffer.size(), tuttiInt32, 0, comm, stream),
                comm);
    };
    const int group = rank == 0 ? 4 : 3;  // of so many, a single call between them
    for (int i = 0; i < kMessages;) {
      transfer(i, i % 2 == 0 ? queue : tuttiBlocking());
      ++i;
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      for (int k = 0; k < group && i < kMessages; ++k, ++i) {
        transfer(i, k % 2 == 0 ? queue : tuttiBlocking());
      }
      EXPECT_OK(tuttiGroupEnd(), nullptr);
    }
    EXPECT_OK(tuttiStreamDestroy(queue), nullptr);
    for (int i = 0; i < kMessages; ++i) {
      const std::vector<int>& buffer = buffers[static_cast<size_t>(i)];
      EXPECT_EQ(buffer, numbers(buffer.size(), 100 * i)) << "message " << i;
    }
  });
}

// Nothing of the group runs, so one rank may simulate alone; more work takes longer.
TEST(Groups, Simulated) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    std::vector<float> values(1 << 20, 1);
    const auto simulate = [&](size_t count, int times, bool transfers) {
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      for (int i = 0; i < times; ++i) {
        EXPECT_OK(transfers ? tuttiSend(values.data(), count, tuttiFloat32, 1 - rank, comm,
                                        tuttiBlocking())
                            : tuttiAllReduce(values.data(), values.data(), count, tuttiFloat32,
                                             tuttiSum, comm, tuttiBlocking()),
                  comm);
      }
      uint64_t nanoseconds = 0;
      EXPECT_OK(tuttiGroupSimulateEnd(&nanoseconds), nullptr);
      return nanoseconds;
    };
    if (rank == 0) {
      for (const bool transfers : {false, true}) {
        const uint64_t small = simulate(2, 1, transfers);
        const uint64_t large = simulate(values.size(), 1, transfers);
        EXPECT_GT(small, 0u);
        EXPECT_GT(large, small);
        EXPECT_GT(simulate(values.size(), 3, transfers), large);
      }
      EXPECT_EQ(values, std::vector<float>(values.size(), 1));
    }
    // Simulated calls are not counted as calls: the ranks are still together.
    float one = 1, sum = 0;
    EXPECT_OK(tuttiAllReduce(&one, &sum, 1, tuttiFloat32, tuttiSum, comm, tuttiBlocking()), comm);
    EXPECT_EQ(sum, 2);
  });
}

TEST(Groups, SimulationIsRefused) {
  uint64_t nanoseconds = 1;
  EXPECT_EQ(tuttiGroupSimulateEnd(&nanoseconds), tuttiInvalidUsage);
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  tuttiComm_t comm = nullptr;
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(tuttiCommInitRank(&comm, 1, id, 0), tuttiSuccess);
  EXPECT_EQ(tuttiGroupSimulateEnd(&nanoseconds), tuttiInvalidUsage);
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(nanoseconds, 0u);
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(tuttiGroupSimulateEnd(nullptr), tuttiInvalidArgument);
}

TEST(Groups, RequestsOfASimulatedGroupAreToldSo) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    int one = 1, sum = 0;
    const tuttiCall_t call = call_of(tuttiCollAllReduce, &one, &sum, 1);
    tuttiRequest_t request = nullptr;
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_OK(tuttiSubmit(&call, comm, tuttiBlocking(), nullptr, &request), comm);
    uint64_t nanoseconds = 0;
    EXPECT_OK(tuttiGroupSimulateEnd(&nanoseconds), nullptr);
    EXPECT_EQ(tuttiRequestWait(request), tuttiInvalidUsage);
    EXPECT_EQ(sum, 0);
  });
}

// Nobody else could end it.
TEST(Groups, AThreadThatEndsDiscardsItsGroup) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    int send = 1, recv = 0;
    const tuttiCall_t call = call_of(tuttiCollAllReduce, &send, &recv, 1);
    tuttiRequest_t request = nullptr;
    tuttiComm_t second = nullptr, made = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, 0, 0, &second, nullptr), tuttiSuccess) << message_of(nullptr);
    std::thread([&] {
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_OK(tuttiSubmit(&call, comm, tuttiBlocking(), nullptr, &request), comm);
      EXPECT_OK(tuttiCommSplit(second, 0, 0, &made, nullptr), second);
    }).join();
    EXPECT_REFUSED(tuttiRequestWait(request), tuttiInvalidUsage, nullptr);
    EXPECT_EQ(recv, 0);
    EXPECT_OK(tuttiBarrier(second, tuttiBlocking()), second);  // no longer busy
    EXPECT_REFUSED(tuttiBarrier(made, tuttiBlocking()), tuttiInvalidUsage, made);
    EXPECT_OK(tuttiCommDestroy(made), made);
    EXPECT_OK(tuttiCommDestroy(second), second);
  });
}

/// A call that a thread makes at its very end: in the second round of the destructors of its keys.
struct LastCall {
  pthread_key_t key = 0;
  int rounds = 0;
  tuttiResult_t result = tuttiSuccess;
};

void call_last(void* argument) {
  auto* last = static_cast<LastCall*>(argument);
  if (++last->rounds == 1) {
    pthread_setspecific(last->key, last);
  } else {
    last->result = tuttiGroupEnd();
  }
}

TEST(Groups, AThreadThatHasDiscardedItsGroupHasNone) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    int send = 1, recv = 0;
    LastCall last;
    ASSERT_EQ(pthread_key_create(&last.key, call_last), 0);
    std::thread([&] {
      pthread_setspecific(last.key, &last);
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_OK(tuttiAllReduce(&send, &recv, 1, tuttiInt32, tuttiSum, comm, tuttiBlocking()), comm);
    }).join();
    pthread_key_delete(last.key);
    EXPECT_EQ(last.rounds, 2);
    EXPECT_EQ(last.result, tuttiInvalidUsage);
    EXPECT_EQ(recv, 0);
  });
}

}  // namespace
}  // namespace tutti::api_test
