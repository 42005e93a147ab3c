// One thread uses a communicator while another ends it, as the watchdogs of NCCL's users do. The
// address and the thread sanitizer see the faults that these tests look for; without them the tests
// see hangs and wrong answers.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"
#include "tests/support/dice.h"
#include "tests/support/in_call.h"
#include "tests/support/thorough.h"

namespace tutti::api_test {
namespace {

using testing_support::await_waiting;

constexpr int kRanks = 2;

/// One rank: a thread that calls until its communicator is dead.
struct Rank {
  tuttiComm_t comm = nullptr;
  tuttiWindow_t window = nullptr;
  std::vector<float> send, recv;
  std::atomic<int> calls{0};
};

using Use = std::function<tuttiResult_t(Rank& rank, int number)>;

void expect_end(tuttiResult_t result) {
  EXPECT_TRUE(result == tuttiRemoteError || result == tuttiInvalidUsage)
      << tuttiGetErrorString(result) << ": " << message_of(nullptr);
}

// The first error is the end of the call or of the peer's; a dead handle says that it is dead.
void hammer(Rank& rank, int number, const Use& use) {
  tuttiResult_t result = tuttiSuccess;
  while (result != tuttiInvalidUsage) {
    result = use(rank, number);
    if (result != tuttiSuccess) expect_end(result);
    rank.calls.fetch_add(1, std::memory_order_relaxed);
  }
  EXPECT_EQ(use(rank, number), tuttiInvalidUsage);
  EXPECT_NE(message_of(rank.comm), "");
}

void watch_and_abort(std::vector<Rank>& ranks, testing_support::Dice& dice) {
  const int until = static_cast<int>(dice.below(40));
  while (ranks[0].calls.load(std::memory_order_relaxed) < until) {
    tuttiResult_t error = tuttiSuccess;
    EXPECT_OK(tuttiCommGetAsyncError(ranks[1].comm, &error), ranks[1].comm);
    EXPECT_EQ(error, tuttiSuccess);
    if (dice.below(2) == 0) std::this_thread::yield();
  }
  for (Rank& rank : ranks) EXPECT_OK(tuttiCommAbort(rank.comm), rank.comm);
}

void make(std::vector<Rank>& ranks) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(tuttiCommInitRank(&ranks[static_cast<size_t>(rank)].comm, kRanks, id, rank),
              tuttiSuccess);
  }
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess);
}

void abort_while(const Use& use, size_t floats, const std::function<void(Rank&)>& prepare = {}) {
  constexpr int kRounds = 30;
  testing_support::Dice dice(29);
  for (int round = 0; round < (testing_support::thorough() ? 10 : 1) * kRounds; ++round) {
    std::vector<Rank> ranks(kRanks);
    make(ranks);
    std::vector<std::thread> threads;
    std::atomic<int> ready{0};
    for (int number = 0; number < kRanks; ++number) {
      Rank& rank = ranks[static_cast<size_t>(number)];
      rank.send.assign(floats, 1);
      rank.recv.assign(floats, 0);
      threads.emplace_back([&, number] {
        Rank& rank = ranks[static_cast<size_t>(number)];
        if (prepare) prepare(rank);
        ready.fetch_add(1);
        while (ready.load() < kRanks) std::this_thread::yield();
        hammer(rank, number, use);
      });
    }
    while (ready.load() < kRanks) std::this_thread::yield();
    watch_and_abort(ranks, dice);
    for (std::thread& thread : threads) thread.join();
  }
}

tuttiResult_t all_reduce(Rank& rank, int) {
  return tuttiAllReduce(rank.send.data(), rank.recv.data(), rank.send.size(), tuttiFloat32,
                        tuttiSum, rank.comm, tuttiBlocking());
}

tuttiResult_t exchange(Rank& rank, int number) {
  const auto send = [&] {
    return tuttiSend(rank.send.data(), rank.send.size(), tuttiFloat32, 1 - number, rank.comm,
                     tuttiBlocking());
  };
  const auto receive = [&] {
    return tuttiRecv(rank.recv.data(), rank.recv.size(), tuttiFloat32, 1 - number, rank.comm,
                     tuttiBlocking());
  };
  const tuttiResult_t first = number == 0 ? send() : receive();
  return first != tuttiSuccess ? first : number == 0 ? receive() : send();
}

TEST(Abort, DuringSmallCalls) { abort_while(all_reduce, 2); }
TEST(Abort, DuringLargeCalls) { abort_while(all_reduce, 100'000); }
TEST(Abort, DuringTransfers) { abort_while(exchange, 1000); }

// Both at once, without tasks.
TEST(Abort, DuringGroupsOfTransfers) {
  abort_while(
      [](Rank& rank, int number) {
        const size_t count = rank.send.size();
        EXPECT_OK(tuttiGroupStart(), nullptr);
        const tuttiResult_t sent = tuttiSend(rank.send.data(), count, tuttiFloat32, 1 - number,
                                             rank.comm, tuttiBlocking());
        const tuttiResult_t received = tuttiRecv(rank.recv.data(), count, tuttiFloat32, 1 - number,
                                                 rank.comm, tuttiBlocking());
        const tuttiResult_t ended = tuttiGroupEnd();
        return sent != tuttiSuccess ? sent : received != tuttiSuccess ? received : ended;
      },
      100'000);
}

TEST(Abort, DuringVectors) {
  abort_while(
      [](Rank& rank, int) {
        const size_t share = rank.send.size() / kRanks;
        const std::vector<size_t> counts(kRanks, share);
        return tuttiAllToAllV(rank.send.data(), counts.data(), nullptr, rank.recv.data(),
                              counts.data(), nullptr, tuttiFloat32, rank.comm, tuttiBlocking());
      },
      2000);
}

TEST(Abort, DuringGroups) {
  abort_while(
      [](Rank& rank, int number) {
        EXPECT_OK(tuttiGroupStart(), nullptr);
        for (int i = 0; i < 2; ++i) {
          const tuttiResult_t result = all_reduce(rank, number);
          if (result == tuttiSuccess) continue;
          EXPECT_OK(tuttiGroupDiscard(), nullptr);
          return result;
        }
        return tuttiGroupEnd();
      },
      2);
}

TEST(Abort, DuringHostStreams) {
  abort_while(
      [](Rank& rank, int) {
        tuttiStream_t stream;
        EXPECT_OK(tuttiStreamCreate(&stream), nullptr);
        tuttiResult_t result = tuttiAllReduce(rank.send.data(), rank.recv.data(), rank.send.size(),
                                              tuttiFloat32, tuttiSum, rank.comm, stream);
        const tuttiResult_t outcome = tuttiStreamSynchronize(stream);
        if (result == tuttiSuccess) result = outcome;
        EXPECT_OK(tuttiStreamDestroy(stream), nullptr);
        return result;
      },
      2);
}

TEST(Abort, DuringSubmittedCalls) {
  abort_while(
      [](Rank& rank, int) {
        tuttiCall_t call = TUTTI_CALL_INITIALIZER;
        call.collective = tuttiCollAllReduce;
        call.send = rank.send.data();
        call.recv = rank.recv.data();
        call.count = rank.send.size();
        call.type = tuttiFloat32;
        call.op = tuttiSum;
        tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
        return tuttiSubmit(&call, rank.comm, tuttiBlocking(), &options, nullptr);
      },
      2);
}

TEST(Abort, DuringWindowAccess) {
  abort_while(
      [](Rank& rank, int number) {
        const tuttiResult_t result = tuttiSignal(1 - number, rank.window, 0, tuttiBlocking());
        if (result != tuttiSuccess) return result;
        return tuttiWaitSignal(1 - number, rank.window, 0, 1, tuttiBlocking());
      },
      2,
      [](Rank& rank) {
        EXPECT_OK(
            tuttiCommWindowRegister(rank.comm, rank.recv.data(), sizeof(float), &rank.window, 0),
            rank.comm);
      });
}

// A rank that nobody answers: the call is inside for long, and ends.
TEST(Abort, EndsACallThatWaits) {
  std::vector<Rank> ranks(kRanks);
  make(ranks);
  std::thread waiting([&] {
    float value = 1;
    EXPECT_EQ(
        tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, ranks[0].comm, tuttiBlocking()),
        tuttiRemoteError);
    EXPECT_NE(message_of(nullptr).find("aborted"), std::string::npos) << message_of(nullptr);
  });
  EXPECT_TRUE(await_waiting(0));
  for (Rank& rank : ranks) EXPECT_OK(tuttiCommAbort(rank.comm), rank.comm);
  waiting.join();
}

// A rank that aborts as soon as its communicator is made ends the first call of all others, however
// late they make theirs.
TEST(Abort, RightAfterTheMaking) {
  constexpr int kCrew = 4, kRounds = 12;
  for (int round = 0; round < kRounds; ++round) {
    tuttiUniqueId id;
    ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kCrew; ++rank) {
      threads.emplace_back([&id, rank, round] {
        tuttiComm_t comm = nullptr;
        EXPECT_EQ(tuttiCommInitRank(&comm, kCrew, id, rank), tuttiSuccess) << message_of(nullptr);
        if (comm == nullptr) return;
        const bool calls = rank != round % kCrew;
        if (calls) {
          EXPECT_NE(tuttiBarrier(comm, tuttiBlocking()), tuttiSuccess);
        }
        EXPECT_OK(tuttiCommAbort(comm), comm);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// The maker may hear of it, and leave nothing, before the abort has claimed the handle.
TEST(Abort, OfABlockingMakingIsNeverRefused) {
  constexpr int kTimes = 200;
  for (int time = 0; time < kTimes && !testing::Test::HasFailure(); ++time) {
    tuttiUniqueId id;
    ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
    tuttiComm_t place = nullptr;
    std::atomic<bool> over{false};
    std::thread maker([&] {
      expect_end(tuttiCommInitRank(&place, 2, id, 0));
      over.store(true);
    });
    tuttiComm_t comm = nullptr;
    while (comm == nullptr && !over.load()) {
      comm = std::atomic_ref(place).load(std::memory_order_acquire);
    }
    EXPECT_OK(tuttiCommAbort(comm), nullptr);
    maker.join();
  }
}

// A thread in the group of two communicators must not keep the one that is ended first.
TEST(Abort, OneCommunicatorAfterTheOtherOfAGroup) {
  std::vector<Rank> first(kRanks), second(kRanks);
  make(first);
  make(second);
  std::thread waiting([&] {
    float value = 1;
    EXPECT_OK(tuttiGroupStart(), nullptr);
    for (std::vector<Rank>* ranks : {&first, &second}) {
      tuttiComm_t comm = ranks->front().comm;
      EXPECT_OK(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, tuttiBlocking()),
                comm);
    }
    EXPECT_EQ(tuttiGroupEnd(), tuttiRemoteError);
  });
  EXPECT_TRUE(await_waiting(0, 2));
  for (std::vector<Rank>* ranks : {&first, &second}) {
    for (Rank& rank : *ranks) EXPECT_OK(tuttiCommAbort(rank.comm), rank.comm);
  }
  waiting.join();
}

TEST(Abort, RevokedWhileACallRuns) {
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Rank> ranks(kRanks);
    make(ranks);
    std::vector<std::thread> threads;
    for (int number = 0; number < kRanks; ++number) {
      Rank& rank = ranks[static_cast<size_t>(number)];
      rank.send.assign(2, 1);
      rank.recv.assign(2, 0);
      threads.emplace_back(
          [&ranks, number] { hammer(ranks[static_cast<size_t>(number)], number, all_reduce); });
    }
    while (ranks[0].calls.load(std::memory_order_relaxed) < round) std::this_thread::yield();
    for (Rank& rank : ranks) {
      EXPECT_OK(tuttiCommRevoke(rank.comm, TUTTI_REVOKE_DEFAULT), rank.comm);
    }
    for (std::thread& thread : threads) thread.join();
    for (Rank& rank : ranks) EXPECT_OK(tuttiCommDestroy(rank.comm), rank.comm);
  }
}

// The parent ends what is in flight, whoever is in it, and the child works.
TEST(Abort, ShrunkWhileACallRuns) {
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Rank> ranks(kRanks);
    make(ranks);
    std::vector<std::thread> threads;
    for (Rank& rank : ranks) {
      rank.send.assign(2, 1);
      rank.recv.assign(2, 0);
      threads.emplace_back([&rank] {
        tuttiResult_t result = tuttiSuccess;
        while (result == tuttiSuccess) {
          result = all_reduce(rank, 0);
          rank.calls.fetch_add(1, std::memory_order_relaxed);
        }
        expect_end(result);
      });
    }
    while (ranks[0].calls.load(std::memory_order_relaxed) < round) std::this_thread::yield();
    std::vector<std::thread> shrinking;
    for (Rank& rank : ranks) {
      shrinking.emplace_back([&rank] {
        tuttiComm_t made = nullptr;
        EXPECT_OK(tuttiCommShrink(rank.comm, nullptr, 0, &made, nullptr, TUTTI_SHRINK_ABORT),
                  rank.comm);
        if (made == nullptr) return;
        int one = 1, sum = 0;
        EXPECT_OK(tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, made, tuttiBlocking()), made);
        EXPECT_EQ(sum, kRanks);
        EXPECT_OK(tuttiCommDestroy(made), made);
      });
    }
    for (std::thread& thread : shrinking) thread.join();
    for (std::thread& thread : threads) thread.join();
    for (Rank& rank : ranks) EXPECT_OK(tuttiCommDestroy(rank.comm), rank.comm);
  }
}

// A destroy waits for the call of another thread, which waits for a rank that does not come.
TEST(Abort, EndsADestroyThatWaits) {
  std::vector<Rank> ranks(kRanks);
  make(ranks);
  for (Rank& rank : ranks) {
    rank.send.assign(2, 1);
    rank.recv.assign(2, 0);
  }
  std::thread caller([&] { EXPECT_NE(all_reduce(ranks[0], 0), tuttiSuccess); });
  EXPECT_TRUE(await_waiting(0));
  std::thread destroyer([&] { (void)tuttiCommDestroy(ranks[0].comm); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // most likely it waits
  (void)tuttiCommAbort(ranks[0].comm);  // the other ending has begun: it does the rest
  caller.join();
  destroyer.join();
  (void)tuttiCommAbort(ranks[1].comm);
}

// The message of a handle is written by the thread that calls and read by any.
TEST(Abort, MessagesAreReadWhileTheyAreWritten) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    constexpr int kTimes = 1000;
    std::thread writer([&] {
      for (int i = 0; i < kTimes; ++i) {
        EXPECT_EQ(tuttiSend(nullptr, 1, tuttiFloat32, i, comm, tuttiBlocking()),
                  tuttiInvalidArgument);
      }
    });
    for (int i = 0; i < kTimes; ++i) EXPECT_GE(message_of(comm).size(), 0u);
    writer.join();
  });
}

}  // namespace
}  // namespace tutti::api_test
