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

}  // namespace
}  // namespace tutti::api_test
