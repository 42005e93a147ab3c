// Calls as values: every collective by tuttiSubmit, options of one call, handles of its outcome.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <set>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"
#include "tests/support/no_threads.h"
#include "tests/support/team.h"

namespace tutti::api_test {
namespace {

constexpr int kRanks = 3;
constexpr uint64_t kHangMs = 60'000;

class Stream {
 public:
  Stream() { EXPECT_EQ(tuttiStreamCreate(&stream_), tuttiSuccess); }
  ~Stream() { EXPECT_OK(tuttiStreamDestroy(stream_), nullptr); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator tuttiStream_t() const { return stream_; }  // NOLINT

 private:
  tuttiStream_t stream_{};
};

void submit_and_wait(const tuttiCall_t& call, tuttiComm_t comm, tuttiStream_t stream) {
  tuttiRequest_t request = nullptr;
  EXPECT_OK(tuttiSubmit(&call, comm, stream, nullptr, &request), comm);
  ASSERT_NE(request, nullptr);
  EXPECT_OK(tuttiRequestWait(request), nullptr);
}

void every_collective(tuttiComm_t comm, int rank, tuttiStream_t stream) {
  const std::vector<int> send = {rank + 1, rank + 11, rank + 21};
  std::vector<int> recv(3, -1);
  const auto run = [&](tuttiCollective_t collective, size_t count, int root = 0) {
    std::fill(recv.begin(), recv.end(), -1);
    tuttiCall_t call = call_of(collective, send.data(), recv.data(), count);
    call.root = root;
    call.op = collective == tuttiCollReduceScatter ? tuttiMax : tuttiSum;
    submit_and_wait(call, comm, stream);
    return recv;
  };
  EXPECT_EQ(run(tuttiCollAllReduce, 2), (std::vector{6, 36, -1}));
  EXPECT_EQ(run(tuttiCollAllGather, 1), (std::vector{1, 2, 3}));
  EXPECT_EQ(run(tuttiCollReduceScatter, 1), (std::vector{10 * rank + 3, -1, -1}));
  EXPECT_EQ(run(tuttiCollBroadcast, 2, 2), (std::vector{3, 13, -1}));
  const std::vector untouched = {-1, -1, -1};
  EXPECT_EQ(run(tuttiCollReduce, 2, 1), rank == 1 ? (std::vector{6, 36, -1}) : untouched);
  EXPECT_EQ(run(tuttiCollGather, 1, 2), rank == 2 ? (std::vector{1, 2, 3}) : untouched);
  EXPECT_EQ(run(tuttiCollScatter, 1), (std::vector{10 * rank + 1, -1, -1}));
  EXPECT_EQ(run(tuttiCollAllToAll, 1), (std::vector{10 * rank + 1, 10 * rank + 2, 10 * rank + 3}));
  run(tuttiCollBarrier, 0);
  if (rank == 2) return;
  // `root` is the peer, and the buffer is the one of the function's name.
  tuttiCall_t call =
      call_of(rank == 0 ? tuttiCollSend : tuttiCollRecv, send.data(), recv.data(), 3);
  call.root = 1 - rank;
  submit_and_wait(call, comm, stream);
  EXPECT_EQ(recv[0], rank == 1 ? 1 : -1);
}

// Rank r has r elements, or r for each; what the collective does not have is not read.
void every_vector_collective(tuttiComm_t comm, int rank, tuttiStream_t stream) {
  const std::vector<int> send = {rank + 1, rank + 11, rank + 21, rank + 31};
  const std::vector<size_t> shares = {0, 1, 2}, apart = {9, 3, 0};
  const auto own = static_cast<size_t>(rank);
  const auto* junk = reinterpret_cast<const size_t*>(uintptr_t{8});
  std::vector<int> recv(4, -1);
  const auto run = [&](tuttiCall_t call) {
    std::fill(recv.begin(), recv.end(), -1);
    submit_and_wait(call, comm, stream);
    return recv;
  };
  tuttiCall_t call = call_of(tuttiCollAllGatherV, send.data(), recv.data(), own);
  call.send_counts = call.send_offsets = junk;
  call.recv_counts = shares.data();
  EXPECT_EQ(run(call), (std::vector{2, 3, 13, -1}));
  call.recv_offsets = apart.data();
  EXPECT_EQ(run(call), (std::vector{3, 13, -1, 2}));

  call = call_of(tuttiCollReduceScatterV, send.data(), recv.data(), 77);
  call.send_counts = shares.data();
  call.send_offsets = call.recv_counts = call.recv_offsets = junk;
  call.op = tuttiMax;
  const std::vector<int> reduced[] = {{-1, -1, -1, -1}, {3, -1, -1, -1}, {13, 23, -1, -1}};
  EXPECT_EQ(run(call), reduced[rank]);

  const std::vector<size_t> to_each(3, own), begin(3, 1);
  call = call_of(tuttiCollAllToAllV, send.data(), recv.data(), 77);
  call.send_counts = to_each.data();
  call.send_offsets = begin.data();
  call.recv_counts = shares.data();
  EXPECT_EQ(run(call), (std::vector{12, 13, 23, -1}));
  call.recv_offsets = apart.data();
  EXPECT_EQ(run(call), (std::vector{13, 23, -1, 12}));
}

TEST(Submit, EveryCollectiveOnBothKindsOfStream) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    for (const auto& calls : {every_collective, every_vector_collective}) {
      calls(comm, rank, tuttiBlocking());
      calls(comm, rank, Stream());
    }
  });
}

// The vectors belong to the caller again while the group is still open.
TEST(Submit, VectorsInAGroupWithOtherCalls) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    const Stream queue;
    for (const tuttiStream_t& stream : {tuttiBlocking(), tuttiStream_t(queue)}) {
      const std::vector<int> send = {rank + 1, rank + 11, rank + 21};
      std::vector<int> reduced(3), exchanged(3), gathered(4);
      std::vector<size_t> ones(3, 1), shares = {1, 1, 2};
      tuttiOptions_t bruck = TUTTI_OPTIONS_INITIALIZER;
      bruck.algorithm = "bruck";
      bruck.timeout_ns = kHangMs * 1'000'000;
      std::vector<tuttiRequest_t> requests(3);
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      tuttiCall_t call = call_of(tuttiCollAllReduce, send.data(), reduced.data(), 3);
      EXPECT_OK(tuttiSubmit(&call, comm, stream, nullptr, &requests[0]), comm);
      call = call_of(tuttiCollAllToAllV, send.data(), exchanged.data(), 0);
      call.send_counts = call.recv_counts = ones.data();
      EXPECT_OK(tuttiSubmit(&call, comm, stream, &bruck, &requests[1]), comm);
      call = call_of(tuttiCollAllGatherV, send.data(), gathered.data(), rank == 2 ? 2 : 1);
      call.recv_counts = shares.data();
      EXPECT_OK(tuttiSubmit(&call, comm, stream, nullptr, &requests[2]), comm);
      ones.assign(3, 1000);
      shares.assign(3, 1000);
      EXPECT_OK(tuttiGroupEnd(), nullptr);
      for (tuttiRequest_t request : requests) EXPECT_OK(tuttiRequestWait(request), nullptr);
      EXPECT_EQ(reduced, (std::vector{6, 36, 66}));
      EXPECT_EQ(exchanged, (std::vector{10 * rank + 1, 10 * rank + 2, 10 * rank + 3}));
      EXPECT_EQ(gathered, (std::vector{1, 2, 3, 13}));
    }
  });
}

// An algorithm that is for equal counts alone would be refused; one that is none of the collective
// is so in any case.
TEST(Submit, OptionsOfOneVectorCall) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    const std::vector<size_t> shares = {0, 1, 2};
    std::vector<int> send(3, rank), recv(3);
    tuttiCall_t call = call_of(tuttiCollReduceScatterV, send.data(), recv.data(), 0);
    call.send_counts = shares.data();
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.algorithm = "bruck";
    EXPECT_REFUSED(tuttiSubmit(&call, comm, tuttiBlocking(), &options, nullptr),
                   tuttiInvalidArgument, comm);
    for (const char* algorithm : {"ring", "circulant"}) {
      options.algorithm = algorithm;
      options.timeout_ns = kHangMs * 1'000'000;
      EXPECT_OK(tuttiSubmit(&call, comm, tuttiBlocking(), &options, nullptr), comm);
      EXPECT_EQ(recv[0], rank == 0 ? 0 : 3);
    }
  });
}

TEST(Submit, AWrongCountReachesTheHandleOnBothSides) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    const Stream queue;
    const std::vector<size_t> two(2, 2), three(2, 3);
    std::vector<int> send(6, rank), recv(6);
    tuttiCall_t call = call_of(tuttiCollAllToAllV, send.data(), recv.data(), 0);
    call.send_counts = two.data();
    call.recv_counts = (rank == 0 ? two : three).data();
    tuttiRequest_t request = nullptr;
    EXPECT_OK(tuttiSubmit(&call, comm, queue, nullptr, &request), comm);
    EXPECT_EQ(tuttiRequestWait(request), tuttiInvalidUsage);
    EXPECT_EQ(tuttiStreamSynchronize(queue), tuttiInvalidUsage);
    EXPECT_NE(message_of(nullptr).find("rank 0 sends 2 elements to rank 1, which expects 3"),
              std::string::npos)
        << message_of(nullptr);
  });
}

TEST(Submit, WhatIsRefusedLeavesNoRequest) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    int send = 1, recv = 0;
    tuttiCall_t call = call_of(tuttiCollAllReduce, &send, &recv, 1);
    tuttiRequest_t request = nullptr;
    const auto refused = [&](const tuttiCall_t* given, const tuttiOptions_t* options = nullptr) {
      request = reinterpret_cast<tuttiRequest_t>(&send);
      EXPECT_REFUSED(tuttiSubmit(given, comm, tuttiBlocking(), options, &request),
                     tuttiInvalidArgument, comm);
      EXPECT_EQ(request, nullptr);
    };
    refused(nullptr);
    call.size = 8;
    refused(&call);
    call = call_of(static_cast<tuttiCollective_t>(77), &send, &recv, 1);
    refused(&call);
    call = call_of(tuttiCollAllReduce, nullptr, &recv, 1);
    refused(&call);
    call = call_of(tuttiCollSend, &send, &recv, 1);
    call.root = 1;
    refused(&call);
    for (const auto vectors : {tuttiCollAllGatherV, tuttiCollReduceScatterV, tuttiCollAllToAllV}) {
      call = call_of(vectors, &send, &recv, 1);
      refused(&call);
      EXPECT_NE(message_of(comm).find("counts is null"), std::string::npos) << message_of(comm);
    }
    call = call_of(tuttiCollAllReduce, &send, &recv, 1);
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.algorithm = "no_such";
    refused(&call, &options);
    options = TUTTI_OPTIONS_INITIALIZER;
    options.size = 0;
    refused(&call, &options);
    EXPECT_EQ(tuttiSubmit(&call, nullptr, tuttiBlocking(), nullptr, nullptr), tuttiInvalidArgument);
    int done = 7;
    EXPECT_REFUSED(tuttiRequestTest(nullptr, &done), tuttiInvalidArgument, nullptr);
    EXPECT_EQ(done, 0);
    EXPECT_REFUSED(tuttiRequestWait(nullptr), tuttiInvalidArgument, nullptr);
    EXPECT_OK(tuttiSubmit(&call, comm, tuttiBlocking(), nullptr, &request), comm);
    EXPECT_REFUSED(tuttiRequestTest(request, nullptr), tuttiInvalidArgument, nullptr);
    EXPECT_OK(tuttiRequestWait(request), nullptr);
    EXPECT_REFUSED(tuttiRequestWait(request), tuttiInvalidUsage, nullptr);
    EXPECT_REFUSED(tuttiRequestTest(request, &done), tuttiInvalidUsage, nullptr);
  });
}

TEST(Submit, CallsOfOtherVersions) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    int send = 1, recv = 0;
    struct {
      tuttiCall_t known;
      unsigned char newer[16] = {};
    } larger{call_of(tuttiCollAllReduce, &send, &recv, 1)};
    larger.known.size = sizeof larger;
    submit_and_wait(larger.known, comm, tuttiBlocking());
    EXPECT_EQ(recv, 1);
    larger.newer[0] = 1;
    EXPECT_REFUSED(tuttiSubmit(&larger.known, comm, tuttiBlocking(), nullptr, nullptr),
                   tuttiInvalidArgument, comm);
    tuttiCall_t smaller = call_of(tuttiCollBroadcast, &send, &recv, 1);
    smaller.size = offsetof(tuttiCall_t, root);
    smaller.root = 5;  // not read: it is behind the end
    submit_and_wait(smaller, comm, tuttiBlocking());
  });
}

TEST(Submit, ARequestIsDoneWhenItsCallIs) {
  std::atomic<int> held{0};
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    const Stream queue;
    int send = rank, recv = -1, done = -1;
    tuttiRequest_t request = nullptr;
    const tuttiCall_t call = call_of(tuttiCollAllReduce, &send, &recv, 1);
    EXPECT_OK(tuttiSubmit(&call, comm, tuttiBlocking(), nullptr, &request), comm);
    EXPECT_OK(tuttiRequestTest(request, &done), nullptr);
    EXPECT_EQ(done, 1) << "BLOCKING";
    EXPECT_OK(tuttiRequestWait(request), nullptr);

    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_OK(tuttiSubmit(&call, comm, tuttiBlocking(), nullptr, &request), comm);
    EXPECT_OK(tuttiRequestTest(request, &done), nullptr);
    EXPECT_EQ(done, 0) << "before the group ends";
    EXPECT_REFUSED(tuttiRequestWait(request), tuttiInvalidUsage, nullptr);
    EXPECT_OK(tuttiGroupEnd(), nullptr);
    EXPECT_OK(tuttiRequestTest(request, &done), nullptr);
    EXPECT_EQ(done, 1) << "after it";
    EXPECT_OK(tuttiRequestWait(request), nullptr);

    // Rank 1 holds its call back: rank 0's cannot be done.
    if (rank == 0) {
      EXPECT_OK(tuttiSubmit(&call, comm, queue, nullptr, &request), comm);
      EXPECT_OK(tuttiRequestTest(request, &done), nullptr);
      EXPECT_EQ(done, 0) << "HOST";
    }
    held.fetch_add(1);
    while (held.load() < 2) std::this_thread::yield();
    if (rank == 1) {
      EXPECT_OK(tuttiSubmit(&call, comm, queue, nullptr, &request), comm);
    }
    EXPECT_OK(tuttiRequestWait(request), nullptr);
    EXPECT_EQ(recv, 1);
  });
}

// One of them gets the result; the handle is freed once, or two later calls would share it.
TEST(Submit, TwoThreadsWaitForOneRequest) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    constexpr int kRounds = 200;
    for (int round = 0; round < kRounds; ++round) {
      int value = 1;
      const tuttiCall_t call = call_of(tuttiCollAllReduce, &value, &value, 1);
      tuttiRequest_t request = nullptr;
      EXPECT_OK(tuttiSubmit(&call, comm, tuttiBlocking(), nullptr, &request), comm);
      std::atomic<int> ready{0};
      tuttiResult_t results[2];
      const auto wait = [&](tuttiResult_t& result) {
        ready.fetch_add(1);
        while (ready.load() < 2) std::this_thread::yield();
        result = tuttiRequestWait(request);
      };
      std::thread other([&] { wait(results[0]); });
      wait(results[1]);
      other.join();
      EXPECT_EQ((results[0] == tuttiSuccess) + (results[1] == tuttiSuccess), 1);
      EXPECT_EQ((results[0] == tuttiInvalidUsage) + (results[1] == tuttiInvalidUsage), 1);
    }
    int value = 1;
    const tuttiCall_t call = call_of(tuttiCollAllReduce, &value, &value, 1);
    std::set<tuttiRequest_t> requests;
    for (int i = 0; i < 2 * kRounds; ++i) {
      tuttiRequest_t request = nullptr;
      EXPECT_OK(tuttiSubmit(&call, comm, tuttiBlocking(), nullptr, &request), comm);
      EXPECT_TRUE(requests.insert(request).second) << "a handle was given out twice";
    }
    for (const tuttiRequest_t request : requests) EXPECT_OK(tuttiRequestWait(request), nullptr);
  });
}

TEST(Submit, OptionsAreTheCallsAlone) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int) {
    set_deadline(comm, kHangMs);
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.timeout_ns = kHangMs * 1'000'000;
    float send = 1, recv = 0;
    tuttiCall_t call = call_of(tuttiCollAllReduce, nullptr, nullptr, 1);
    call.send = &send;
    call.recv = &recv;
    call.type = tuttiFloat32;
    for (const char* algorithm : {"ring", "one_shot", "two_shot", "ring"}) {
      options.algorithm = algorithm;
      recv = 0;
      EXPECT_OK(tuttiSubmit(&call, comm, tuttiBlocking(), &options, nullptr), comm);
      EXPECT_EQ(recv, 3.0f);
      recv = 0;
      EXPECT_OK(tuttiAllReduce(&send, &recv, 1, tuttiFloat32, tuttiSum, comm, tuttiBlocking()),
                comm);
      EXPECT_EQ(recv, 3.0f);
    }
    // The call gets the options that it asks for: this algorithm never reduces in the canonical
    // order.
    options.algorithm = "ring";
    options.deterministic = 1;
    const tuttiResult_t result = tuttiSubmit(&call, comm, tuttiBlocking(), &options, nullptr);
    EXPECT_EQ(result, tuttiInvalidArgument) << message_of(comm);
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
  });
}

TEST(Submit, ADeadlineOfOneCall) {
  std::atomic<bool> over{false};
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    if (rank == 1) {
      while (!over.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    const Stream queue;
    int send = 1, recv = 0, done = 0;
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.timeout_ns = 50'000'000;
    const tuttiCall_t call = call_of(tuttiCollAllReduce, &send, &recv, 1);
    tuttiRequest_t request = nullptr;
    EXPECT_OK(tuttiSubmit(&call, comm, queue, &options, &request), comm);
    EXPECT_EQ(tuttiStreamSynchronize(queue), tuttiTimeout);
    EXPECT_EQ(tuttiRequestTest(request, &done), tuttiTimeout);
    EXPECT_EQ(done, 1);
    EXPECT_REFUSED(tuttiRequestWait(request), tuttiTimeout, nullptr);
    over.store(true);
  });
}

TEST(Submit, RequestsOutliveTheirCommunicator) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    const Stream queue;
    int send = 1, recv = 0;
    const tuttiCall_t call = call_of(tuttiCollAllReduce, &send, &recv, 1);
    tuttiRequest_t request = nullptr;
    EXPECT_OK(tuttiSubmit(&call, comm, queue, nullptr, &request), comm);
    EXPECT_OK(tuttiCommDestroy(comm), comm);
    EXPECT_OK(tuttiRequestWait(request), nullptr);
    EXPECT_EQ(recv, 1);
    EXPECT_REFUSED(tuttiSubmit(&call, comm, queue, nullptr, &request), tuttiInvalidUsage, comm);
    EXPECT_EQ(request, nullptr);
    comm = nullptr;
  });
}

// Nearly for ever is not at once. Blame for a deadline that has passed takes up to a second.
TEST(Submit, ADeadlineBeyondTheClock) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.timeout_ns = UINT64_MAX - 1;
    EXPECT_OK(tuttiCommSetOptions(comm, &options), comm);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
  });
}

// In a process of its own, whose engine has not begun.
void submit_without_threads(testing_support::Member& member) {
  tuttiUniqueId id;
  tuttiComm_t comm = nullptr;
  tuttiStream_t stream{};
  if (!member.take_id(id) || tuttiCommInitRank(&comm, 1, id, 0) != tuttiSuccess ||
      tuttiStreamCreate(&stream) != tuttiSuccess) {
    return member.fail(tuttiGetLastError(nullptr));
  }
  int send = 1, recv = 0;
  const tuttiCall_t call = call_of(tuttiCollAllReduce, &send, &recv, 1);
  tuttiRequest_t request = nullptr;
  {
    const testing_support::NoThreads none;
    if (tuttiSubmit(&call, comm, stream, nullptr, nullptr) != tuttiSystemError) {
      member.fail("a call on a HOST stream did not say that there is no thread");
    }
    tuttiGroupStart();
    tuttiSubmit(&call, comm, stream, nullptr, &request);
    if (tuttiGroupEnd() != tuttiSystemError) member.fail("nor did a group");
    if (tuttiRequestWait(request) != tuttiSystemError) member.fail("nor did its request");
  }
  const bool works = tuttiSubmit(&call, comm, stream, nullptr, nullptr) == tuttiSuccess &&
                     tuttiStreamDestroy(stream) == tuttiSuccess && recv == 1 &&
                     tuttiCommDestroy(comm) == tuttiSuccess;
  if (!works) member.fail(tuttiGetLastError(nullptr));
}

TEST(Submit, WithoutAThreadForTheEngine) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer forbids threads in a child of a process that has some";
#endif
  const auto result = testing_support::run_team(
      testing_support::TeamShape::processes(1), submit_without_threads,
      [](uint64_t) { return std::string("submitting"); }, kHangMs * 1'000'000);
  EXPECT_TRUE(result.ok) << result.report;
}

// A refused call keeps its whole group from running; the requests of the others say so.
TEST(Submit, ARefusedGroupTellsItsRequests) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    int send = 1, recv = 0, done = 0;
    const tuttiCall_t call = call_of(tuttiCollAllReduce, &send, &recv, 1);
    const tuttiCall_t wrong = call_of(tuttiCollAllReduce, nullptr, &recv, 1);
    tuttiRequest_t request = nullptr, refused = nullptr;
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_OK(tuttiSubmit(&call, comm, tuttiBlocking(), nullptr, &request), comm);
    EXPECT_REFUSED(tuttiCommDestroy(comm), tuttiInvalidUsage, comm);
    EXPECT_REFUSED(tuttiSubmit(&wrong, comm, tuttiBlocking(), nullptr, &refused),
                   tuttiInvalidArgument, comm);
    EXPECT_EQ(refused, nullptr);
    EXPECT_REFUSED(tuttiGroupEnd(), tuttiInvalidArgument, nullptr);
    EXPECT_EQ(tuttiRequestTest(request, &done), tuttiInvalidArgument);
    EXPECT_EQ(done, 1);
    EXPECT_REFUSED(tuttiRequestWait(request), tuttiInvalidArgument, nullptr);
    EXPECT_EQ(recv, 0);
  });
}

}  // namespace
}  // namespace tutti::api_test
