// A rank that gives up tells everybody, also those who wait for another rank or for none. All ranks
// are on one host: without streams there is nobody who would tell it on.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/api/crowd.h"
#include "tests/support/in_call.h"

namespace tutti::api_test {
namespace {

constexpr std::chrono::minutes kPatience{1};

/// The asynchronous error, once there is one.
tuttiResult_t error_in_time(tuttiComm_t comm) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  tuttiResult_t error = tuttiSuccess;
  while (error == tuttiSuccess && std::chrono::steady_clock::now() < until) {
    EXPECT_OK(tuttiCommGetAsyncError(comm, &error), comm);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return error;
}

// Rank 1 waits for rank 2, which is in no call. Rank 0 is what neither of them waits for.
void expect_all_told(const std::function<void(tuttiComm_t& comm)>& give_up) {
  std::atomic<bool> told{false};
  run_ranks(3, [&](tuttiComm_t& comm, int rank) {
    set_deadline(comm, 120'000);  // so that the test ends where nobody is told
    if (rank == 0) {
      EXPECT_TRUE(testing_support::await_waiting(1));
      give_up(comm);
      while (!told.load()) std::this_thread::yield();
    } else if (rank == 1) {
      float value = 0;
      EXPECT_EQ(tuttiRecv(&value, 1, tuttiFloat32, 2, comm, tuttiBlocking()), tuttiRemoteError);
      EXPECT_NE(message_of(comm).find("rank 0"), std::string::npos) << message_of(comm);
    } else {
      EXPECT_EQ(error_in_time(comm), tuttiRemoteError);
      told.store(true);
    }
  });
}

TEST(ToldOn, ARevokeByWhomNobodyWaitsFor) {
  expect_all_told(
      [](tuttiComm_t& comm) { EXPECT_OK(tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT), comm); });
}

TEST(ToldOn, AnAbortByWhomNobodyWaitsFor) {
  expect_all_told([](tuttiComm_t& comm) {
    EXPECT_OK(tuttiCommAbort(comm), comm);
    comm = nullptr;
  });
}

TEST(ToldOn, ADeadlineOfWhomNobodyWaitsFor) {
  expect_all_told([](tuttiComm_t& comm) {
    set_deadline(comm, 50);
    float value = 0;
    EXPECT_EQ(tuttiRecv(&value, 1, tuttiFloat32, 2, comm, tuttiBlocking()), tuttiTimeout);
  });
}

/// A call that would succeed, since it waits for nobody.
using Easy = std::function<tuttiResult_t(tuttiComm_t comm)>;

// A rank that has learned of the end from the asynchronous error learns the same from its next
// call.
void expect_no_more_calls(const Easy& easy) {
  run_ranks(3, [&](tuttiComm_t& comm, int rank) {
    if (rank == 0) {
      EXPECT_OK(tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT), comm);
      return;
    }
    EXPECT_EQ(error_in_time(comm), tuttiRemoteError);
    if (rank == 2) {
      EXPECT_EQ(easy(comm), tuttiRemoteError) << message_of(comm);
    }
  });
}

tuttiResult_t send_one(tuttiComm_t comm) {
  const float value = 0;
  return tuttiSend(&value, 1, tuttiFloat32, 1, comm, tuttiBlocking());
}

tuttiResult_t broadcast_one(tuttiComm_t comm) {
  float value = 0;
  return tuttiBroadcast(&value, &value, 1, tuttiFloat32, 2, comm, tuttiBlocking());
}

// The engine takes them in pieces.
Easy in_pieces(const std::function<tuttiResult_t(tuttiComm_t, tuttiStream_t)>& call) {
  return [call](tuttiComm_t comm) {
    tuttiStream_t stream;
    EXPECT_OK(tuttiStreamCreate(&stream), nullptr);
    EXPECT_OK(call(comm, stream), comm);
    const tuttiResult_t result = tuttiStreamSynchronize(stream);
    EXPECT_OK(tuttiStreamDestroy(stream), nullptr);
    return result;
  };
}

TEST(ToldOn, AMessageFailsBehindTheError) { expect_no_more_calls(send_one); }
TEST(ToldOn, ABroadcastFailsBehindTheError) { expect_no_more_calls(broadcast_one); }

TEST(ToldOn, AQueuedMessageFailsBehindTheError) {
  static const float value = 0;
  expect_no_more_calls(in_pieces([](tuttiComm_t comm, tuttiStream_t stream) {
    return tuttiSend(&value, 1, tuttiFloat32, 1, comm, stream);
  }));
}

TEST(ToldOn, AQueuedBroadcastFailsBehindTheError) {
  static float value = 0;
  expect_no_more_calls(in_pieces([](tuttiComm_t comm, tuttiStream_t stream) {
    return tuttiBroadcast(&value, &value, 1, tuttiFloat32, 2, comm, stream);
  }));
}

}  // namespace
}  // namespace tutti::api_test
