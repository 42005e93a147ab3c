// Waits that nobody ends: deadlines and aborts must, whatever the wait is for.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"
#include "tests/support/in_call.h"

namespace tutti::api_test {
namespace {

constexpr size_t kLong = 1 << 20;  // of a transfer: no ring holds so much
constexpr uint64_t kDeadlineMs = 300;

class Crew {
 public:
  explicit Crew(int ranks) : comms_(static_cast<size_t>(ranks), nullptr) {
    tuttiUniqueId id;
    EXPECT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(tuttiCommInitRank(&comms_[static_cast<size_t>(rank)], ranks, id, rank),
                tuttiSuccess);
    }
    EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess);
  }
  ~Crew() {
    for (tuttiComm_t comm : comms_) {
      if (comm == nullptr) continue;
      EXPECT_OK(tuttiCommAbort(comm), comm);
    }
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  tuttiComm_t operator[](int rank) const { return comms_[static_cast<size_t>(rank)]; }
  void abort(int rank) {
    EXPECT_OK(tuttiCommAbort(comms_[static_cast<size_t>(rank)]), nullptr);
    comms_[static_cast<size_t>(rank)] = nullptr;
  }

 private:
  std::vector<tuttiComm_t> comms_;
};

/// One long transfer of rank 0 that rank 1 does not take part in.
using Transfer = std::function<tuttiResult_t(tuttiComm_t comm, char* memory, tuttiStream_t stream)>;

tuttiResult_t send(tuttiComm_t comm, char* memory, tuttiStream_t stream) {
  return tuttiSend(memory, kLong, tuttiInt8, 1, comm, stream);
}
tuttiResult_t receive(tuttiComm_t comm, char* memory, tuttiStream_t stream) {
  return tuttiRecv(memory, kLong, tuttiInt8, 1, comm, stream);
}

tuttiResult_t run_queued(const Transfer& transfer, tuttiComm_t comm, char* memory) {
  tuttiStream_t stream;
  EXPECT_OK(tuttiStreamCreate(&stream), nullptr);
  EXPECT_OK(transfer(comm, memory, stream), comm);
  const tuttiResult_t result = tuttiStreamSynchronize(stream);
  EXPECT_OK(tuttiStreamDestroy(stream), nullptr);
  return result;
}

tuttiResult_t run(const Transfer& transfer, bool queued, tuttiComm_t comm) {
  std::vector<char> memory(kLong);
  return queued ? run_queued(transfer, comm, memory.data())
                : transfer(comm, memory.data(), tuttiBlocking());
}

struct Case {
  Transfer transfer;
  bool queued;
};
const Case kCases[] = {{send, false}, {send, true}, {receive, false}, {receive, true}};

TEST(BoundedWaits, ATransferThatNobodyTakesEndsAtItsDeadline) {
  for (const Case& each : kCases) {
    const Crew crew(2);
    set_deadline(crew[0], kDeadlineMs);
    EXPECT_EQ(run(each.transfer, each.queued, crew[0]), tuttiTimeout);
  }
}

TEST(BoundedWaits, ATransferThatNobodyTakesEndsByAnAbort) {
  for (const Case& each : kCases) {
    Crew crew(2);
    std::thread waiting(
        [&, comm = crew[0]] { EXPECT_NE(run(each.transfer, each.queued, comm), tuttiSuccess); });
    EXPECT_TRUE(testing_support::await_waiting(0));
    crew.abort(0);
    waiting.join();
  }
}

// The receiver has taken what was in the ring when the sender gave up.
TEST(BoundedWaits, ATransferWhoseSenderGaveUpHalfWayEnds) {
  for (const bool queued : {false, true}) {
    const Crew crew(2);
    set_deadline(crew[0], kDeadlineMs);
    EXPECT_EQ(run(send, queued, crew[0]), tuttiTimeout);
    const auto take = [](tuttiComm_t comm, char* memory, tuttiStream_t stream) {
      return tuttiRecv(memory, kLong, tuttiInt8, 0, comm, stream);
    };
    EXPECT_EQ(run(take, queued, crew[1]), tuttiRemoteError);
  }
}

/// Both ranks of a communicator, with calls on HOST streams.
class BusyRanks {
 public:
  explicit BusyRanks(const Crew& crew) : crew_(crew) {
    for (tuttiStream_t& stream : streams_) EXPECT_OK(tuttiStreamCreate(&stream), nullptr);
    for (std::vector<float>& each : values_) each.assign(kLong, 1.0f);
  }
  ~BusyRanks() {
    while (!queued_.empty()) await_earlier();
    for (const tuttiStream_t stream : streams_) EXPECT_OK(tuttiStreamDestroy(stream), nullptr);
  }
  BusyRanks(const BusyRanks&) = delete;
  BusyRanks& operator=(const BusyRanks&) = delete;

  /// Some calls more.
  void queue() {
    constexpr int kCalls = 8;
    for (int i = 0; i < kCalls; ++i) {
      for (size_t rank = 0; rank < values_.size(); ++rank) {
        tuttiComm_t comm = crew_[static_cast<int>(rank)];
        tuttiCall_t call = TUTTI_CALL_INITIALIZER;
        call.collective = tuttiCollAllReduce;
        call.send = call.recv = values_[rank].data();
        call.count = kLong;
        call.type = tuttiFloat32;
        call.op = tuttiMax;
        tuttiRequest_t last = nullptr;
        EXPECT_OK(
            tuttiSubmit(&call, comm, streams_[rank], nullptr, i + 1 < kCalls ? nullptr : &last),
            comm);
        if (last != nullptr) queued_.push_back(last);
      }
    }
  }
  /// Until those of the earliest queue() are done.
  void await_earlier() {
    for (size_t rank = 0; rank < values_.size() && !queued_.empty(); ++rank) {
      EXPECT_OK(tuttiRequestWait(queued_.front()), nullptr);
      queued_.pop_front();
    }
  }

 private:
  const Crew& crew_;
  std::array<tuttiStream_t, 2> streams_;
  std::array<std::vector<float>, 2> values_;
  std::deque<tuttiRequest_t> queued_;
};

// All queued work of a process is moved by one thread.
TEST(BoundedWaits, ABusyCommunicatorHidesNoDeadlineOfAnother) {
  const Crew busy(2), stuck(2);
  set_deadline(stuck[0], kDeadlineMs);
  std::atomic<bool> over{false};
  std::thread waiting([&] {
    EXPECT_EQ(run(receive, true, stuck[0]), tuttiTimeout);
    over = true;
  });
  BusyRanks ranks(busy);
  ranks.queue();
  while (!over) {  // the next ones are queued before the last ones are done
    ranks.queue();
    ranks.await_earlier();
  }
  waiting.join();
}

}  // namespace
}  // namespace tutti::api_test
