// A request tells by itself when its call has completed, is waited for up to a limit, knows when
// the call ran.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "tests/api/crowd.h"

namespace tutti::api_test {
namespace {

constexpr int kRanks = 2;

class Queue {
 public:
  Queue() { EXPECT_EQ(tuttiStreamCreate(&stream_), tuttiSuccess); }
  ~Queue() { (void)tuttiStreamDestroy(stream_); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  operator tuttiStream_t() const { return stream_; }  // NOLINT

 private:
  tuttiStream_t stream_{};
};

tuttiRequest_t submitted(const tuttiCall_t& call, tuttiComm_t comm, tuttiStream_t stream) {
  tuttiRequest_t request = nullptr;
  EXPECT_OK(tuttiSubmit(&call, comm, stream, nullptr, &request), comm);
  return request;
}

/// The words of a callback.
struct Told {
  std::atomic<int> times{0};
  tuttiResult_t result = tuttiSuccess;
  std::string text;
  std::thread::id thread;

  static void note(tuttiRequest_t, tuttiResult_t result, void* context) {
    auto& told = *static_cast<Told*>(context);
    told.result = result;
    told.text = tuttiGetLastError(nullptr);
    told.thread = std::this_thread::get_id();
    told.times.fetch_add(1);
    told.times.notify_all();
  }
  void wait() { times.wait(0); }
};

TEST(Requests, TellWhenTheirCallHasCompleted) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int rank) {
    const Queue queue;
    int send = rank + 1, recv = 0;
    Told told;
    const auto request = submitted(call_of(tuttiCollAllReduce, &send, &recv, 1), comm, queue);
    EXPECT_OK(tuttiRequestNotify(request, Told::note, &told), nullptr);
    told.wait();
    EXPECT_EQ(told.result, tuttiSuccess);
    EXPECT_EQ(recv, 3);
    int done = 0;
    EXPECT_OK(tuttiRequestTest(request, &done), nullptr);
    EXPECT_EQ(done, 1);
    // It has told, so a second one is told at once, here.
    Told again;
    EXPECT_OK(tuttiRequestNotify(request, Told::note, &again), nullptr);
    EXPECT_EQ(again.times, 1);
    EXPECT_EQ(again.thread, std::this_thread::get_id());
    EXPECT_OK(tuttiRequestWait(request), nullptr);
    EXPECT_EQ(told.times, 1);
  });
}

TEST(Requests, OnABlockingStreamTellAtOnce) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int rank) {
    int send = rank + 1, recv = 0;
    Told told;
    const auto request =
        submitted(call_of(tuttiCollAllReduce, &send, &recv, 1), comm, tuttiBlocking());
    EXPECT_OK(tuttiRequestNotify(request, Told::note, &told), nullptr);
    EXPECT_EQ(told.times, 1);
    uint64_t began_ns = 0, ended_ns = 0;
    EXPECT_OK(tuttiRequestGetTimes(request, &began_ns, &ended_ns), nullptr);
    EXPECT_GT(began_ns, 0u);
    EXPECT_GE(ended_ns, began_ns);
    EXPECT_OK(tuttiRequestWait(request), nullptr);
  });
}

TEST(Requests, OfAGroupTellWhenItEnds) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int rank) {
    int send[2] = {rank + 1, rank + 2}, recv[2] = {0, 0};
    Told told[2];
    tuttiRequest_t requests[2];
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int i = 0; i < 2; ++i) {
      requests[i] =
          submitted(call_of(tuttiCollAllReduce, send + i, recv + i, 1), comm, tuttiBlocking());
      EXPECT_OK(tuttiRequestNotify(requests[i], Told::note, &told[i]), nullptr);
      EXPECT_EQ(told[i].times, 0);
    }
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(told[i].times, 1);
      EXPECT_EQ(told[i].thread, std::this_thread::get_id());
      EXPECT_OK(tuttiRequestWait(requests[i]), nullptr);
    }
    EXPECT_EQ(recv[1], 5);
  });
}

TEST(Requests, OfADiscardedGroupTellThatNothingRan) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    int send = 1, recv = 0;
    Told told;
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    const auto request =
        submitted(call_of(tuttiCollAllReduce, &send, &recv, 1), comm, tuttiBlocking());
    EXPECT_OK(tuttiRequestNotify(request, Told::note, &told), nullptr);
    EXPECT_EQ(tuttiGroupDiscard(), tuttiSuccess);
    EXPECT_EQ(told.times, 1);
    EXPECT_EQ(told.result, tuttiInvalidUsage);
    EXPECT_NE(told.text.find("discarded"), std::string::npos) << told.text;
    uint64_t began_ns = 1, ended_ns = 1;
    EXPECT_OK(tuttiRequestGetTimes(request, &began_ns, &ended_ns), nullptr);
    EXPECT_EQ(began_ns + ended_ns, 0u);
    EXPECT_EQ(tuttiRequestWait(request), tuttiInvalidUsage);
  });
}

/// Sums that follow each other, each begun by the callback of the one before.
struct Relay {
  static constexpr int kCalls = 100;
  tuttiComm_t comm;
  tuttiStream_t stream;
  int value[2] = {1, 0};
  std::atomic<int> left{kCalls};

  void next() {
    const auto request =
        submitted(call_of(tuttiCollAllReduce, &value[0], &value[1], 1), comm, stream);
    EXPECT_OK(tuttiRequestNotify(request, &Relay::arrive, this), nullptr);
  }
  static void arrive(tuttiRequest_t request, tuttiResult_t result, void* context) {
    auto& relay = *static_cast<Relay*>(context);
    EXPECT_EQ(result, tuttiSuccess);
    EXPECT_OK(tuttiRequestWait(request), nullptr);
    relay.value[0] = relay.value[1] % 1000;
    if (relay.left > 1) relay.next();
    relay.left.fetch_sub(1);
    relay.left.notify_all();
  }
};

TEST(Requests, CallbacksBeginTheNextCall) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int) {
    const Queue queue;
    Relay relay{comm, queue};
    relay.next();
    for (int left = relay.left; left > 0; left = relay.left) relay.left.wait(left);
    int expected = 1;
    for (int i = 0; i < Relay::kCalls; ++i) expected = expected * 2 % 1000;
    EXPECT_EQ(relay.value[0], expected);
  });
}

/// In a callback, what would wait for the thread that it runs in.
struct Waits {
  tuttiComm_t comm;
  tuttiStream_t stream;
  tuttiRequest_t later;
  std::vector<tuttiResult_t> results;
  std::atomic<bool> over{false};

  static void attempt_all(tuttiRequest_t, tuttiResult_t, void* context) {
    auto& waits = *static_cast<Waits*>(context);
    int send = 1, recv = 0;
    tuttiComm_t made = nullptr;
    waits.results = {
        tuttiAllReduce(&send, &recv, 1, tuttiInt32, tuttiSum, waits.comm, tuttiBlocking()),
        tuttiStreamSynchronize(waits.stream),
        tuttiStreamDestroy(waits.stream),
        tuttiRequestWait(waits.later),
        tuttiRequestWaitFor(waits.later, UINT64_MAX),
        tuttiCommSetOptions(waits.comm, nullptr),
        tuttiCommSplit(waits.comm, 0, 0, &made, nullptr),
        tuttiCommInitLaunched(&made, nullptr),
        tuttiCommFinalize(waits.comm),
        tuttiCommRevoke(waits.comm, TUTTI_REVOKE_DEFAULT),
        tuttiCommDestroy(waits.comm),
        tuttiCommAbort(waits.comm)};
    EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find("callback"), std::string::npos);
    waits.over = true;
    waits.over.notify_all();
  }
};

TEST(Requests, CallbacksCannotWait) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int rank) {
    const Queue queue;
    int send = rank + 1, recv[2] = {0, 0};
    // Both are in the queue before either can complete.
    std::vector<tuttiRequest_t> requests(2);
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int i = 0; i < 2; ++i) {
      requests[i] = submitted(call_of(tuttiCollAllReduce, &send, recv + i, 1), comm, queue);
    }
    Waits waits{comm, queue, requests[1], {}, {}};
    EXPECT_OK(tuttiRequestNotify(requests[0], Waits::attempt_all, &waits), nullptr);
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    waits.over.wait(false);
    for (size_t i = 0; i < waits.results.size(); ++i) {
      EXPECT_EQ(waits.results[i], tuttiInvalidUsage) << "call " << i;
    }
    for (const tuttiRequest_t request : requests) EXPECT_OK(tuttiRequestWait(request), nullptr);
    EXPECT_EQ(recv[1], 3);
    EXPECT_EQ(sum_over(comm, 1), kRanks) << "the communicator is usable";
  });
}

TEST(Requests, AnAbortTellsThemBeforeItReturns) {
  std::atomic<bool> aborted{false};
  run_ranks(kRanks, [&](tuttiComm_t& comm, int rank) {
    if (rank != 0) return aborted.wait(false);  // so the call cannot end by itself
    const Queue queue;
    int send = 1, recv = 0;
    Told told;
    const auto request = submitted(call_of(tuttiCollAllReduce, &send, &recv, 1), comm, queue);
    EXPECT_OK(tuttiRequestNotify(request, Told::note, &told), nullptr);
    EXPECT_OK(tuttiCommAbort(comm), nullptr);
    comm = nullptr;
    EXPECT_EQ(told.times, 1);
    aborted = true;
    aborted.notify_all();
    EXPECT_EQ(told.result, tuttiRemoteError);
    EXPECT_NE(told.text.find("aborted"), std::string::npos) << told.text;
    EXPECT_EQ(tuttiRequestWait(request), tuttiRemoteError) << "a handle outlives its communicator";
  });
}

TEST(Requests, ADestroyWaitsForCallbacks) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int rank) {
    const Queue queue;
    int send = rank, recv = 0;
    Told told;
    const auto request = submitted(call_of(tuttiCollAllReduce, &send, &recv, 1), comm, queue);
    EXPECT_OK(tuttiRequestNotify(request, Told::note, &told), nullptr);
    EXPECT_OK(tuttiCommDestroy(comm), nullptr);
    comm = nullptr;
    EXPECT_EQ(told.times, 1);
    EXPECT_OK(tuttiRequestWait(request), nullptr);
  });
}

TEST(Requests, AWaitWithALimitLeavesEverythingAsItWas) {
  std::atomic<bool> come{false};
  run_ranks(kRanks, [&](tuttiComm_t& comm, int rank) {
    const Queue queue;
    int send = rank + 1, recv = 0;
    if (rank == 1) come.wait(false);
    const auto request = submitted(call_of(tuttiCollAllReduce, &send, &recv, 1), comm, queue);
    if (rank == 0) {
      EXPECT_EQ(tuttiRequestWaitFor(request, 0), tuttiInProgress);
      EXPECT_EQ(tuttiRequestWaitFor(request, kNanosecondsPerMillisecond), tuttiInProgress);
      int done = 1;
      EXPECT_OK(tuttiRequestTest(request, &done), nullptr);
      EXPECT_EQ(done, 0) << "the handle is good after the limit";
      come = true;
      come.notify_all();
    }
    EXPECT_OK(tuttiRequestWaitFor(request, UINT64_MAX), nullptr);
    EXPECT_EQ(recv, 3);
    EXPECT_EQ(sum_over(comm, 1), kRanks);
  });
}

TEST(Requests, KnowWhenTheirCallsRan) {
  std::atomic<bool> come{false};
  run_ranks(kRanks, [&](tuttiComm_t& comm, int rank) {
    const Queue queue;
    const uint64_t before_ns = monotonic_ns();
    int send = rank, recv[2] = {0, 0};
    if (rank == 1) come.wait(false);
    std::vector<tuttiRequest_t> requests;
    for (int& one : recv) {
      requests.push_back(submitted(call_of(tuttiCollAllReduce, &send, &one, 1), comm, queue));
    }
    uint64_t began_ns[2] = {}, ended_ns[2] = {};
    if (rank == 0) {
      EXPECT_OK(tuttiRequestGetTimes(requests[0], &began_ns[0], &ended_ns[0]), nullptr);
      EXPECT_EQ(ended_ns[0], 0u) << "it cannot end before the other rank has come";
      EXPECT_OK(tuttiRequestGetTimes(requests[1], &began_ns[1], &ended_ns[1]), nullptr);
      EXPECT_EQ(began_ns[1], 0u) << "it is behind the first";
      come = true;
      come.notify_all();
    }
    EXPECT_OK(tuttiStreamSynchronize(queue), nullptr);
    for (int i = 0; i < 2; ++i) {
      EXPECT_OK(tuttiRequestGetTimes(requests[i], &began_ns[i], &ended_ns[i]), nullptr);
      EXPECT_LE(began_ns[i], ended_ns[i]);
      EXPECT_OK(tuttiRequestWait(requests[i]), nullptr);
    }
    EXPECT_LE(before_ns, began_ns[0]);
    EXPECT_LE(ended_ns[0], began_ns[1]);
    EXPECT_LE(ended_ns[1], monotonic_ns());
  });
}

TEST(Requests, WhatIsRefused) {
  std::atomic<bool> come{false};
  run_ranks(kRanks, [&](tuttiComm_t& comm, int rank) {
    const Queue queue;
    Told told;
    int send = rank, recv = 0;
    uint64_t time_ns = 0;
    if (rank == 1) come.wait(false);
    const auto request = submitted(call_of(tuttiCollAllReduce, &send, &recv, 1), comm, queue);
    if (rank == 0) {
      EXPECT_OK(tuttiRequestNotify(request, Told::note, &told), nullptr);
      EXPECT_REFUSED(tuttiRequestNotify(request, Told::note, &told), tuttiInvalidUsage, nullptr);
      come = true;
      come.notify_all();
    }
    EXPECT_REFUSED(tuttiRequestNotify(request, nullptr, &told), tuttiInvalidArgument, nullptr);
    EXPECT_REFUSED(tuttiRequestNotify(nullptr, Told::note, &told), tuttiInvalidArgument, nullptr);
    EXPECT_REFUSED(tuttiRequestGetTimes(request, nullptr, &time_ns), tuttiInvalidArgument, nullptr);
    EXPECT_REFUSED(tuttiRequestGetTimes(request, &time_ns, nullptr), tuttiInvalidArgument, nullptr);
    EXPECT_REFUSED(tuttiRequestWaitFor(nullptr, 1), tuttiInvalidArgument, nullptr);
    EXPECT_OK(tuttiRequestWait(request), nullptr);
    EXPECT_REFUSED(tuttiRequestWaitFor(request, 1), tuttiInvalidUsage, nullptr);
    EXPECT_REFUSED(tuttiRequestNotify(request, Told::note, &told), tuttiInvalidUsage, nullptr);
    EXPECT_OK(tuttiStreamSynchronize(queue), nullptr);
    EXPECT_EQ(told.times, rank == 0 ? 1 : 0);
  });
}

}  // namespace
}  // namespace tutti::api_test
