#include "tests/api/crowd.h"

#include <chrono>
#include <thread>
#include <vector>

namespace tutti::api_test {

void run_ranks(int ranks, const RankBody& body, const tuttiConfig_t* config) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess) << tuttiGetLastError(nullptr);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      tuttiComm_t comm = nullptr;
      const tuttiResult_t made = tuttiCommInitRankConfig(&comm, ranks, id, rank, config);
      ASSERT_EQ(outcome_of(made, comm), tuttiSuccess) << tuttiGetLastError(nullptr);
      body(comm, rank);
      if (comm != nullptr) {
        EXPECT_OK(outcome_of(tuttiCommDestroy(comm), comm), comm);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void set_deadline(tuttiComm_t comm, uint64_t milliseconds) {
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.timeout_ns = milliseconds * 1'000'000;
  EXPECT_OK(tuttiCommSetOptions(comm, &options), comm);
}

tuttiResult_t settle(tuttiComm_t comm) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  tuttiResult_t error = tuttiInProgress;
  while (error == tuttiInProgress && std::chrono::steady_clock::now() < end) {
    EXPECT_OK(tuttiCommGetAsyncError(comm, &error), comm);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return error;
}

tuttiResult_t outcome_of(tuttiResult_t result, tuttiComm_t comm) {
  return result == tuttiInProgress ? settle(comm) : result;
}

void abort_making(tuttiComm_t comm) {
  EXPECT_EQ(outcome_of(tuttiCommAbort(comm), comm), tuttiSuccess);
}

void until_busy(tuttiComm_t comm, bool busy) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  tuttiResult_t error = busy ? tuttiSuccess : tuttiInProgress;
  while ((error == tuttiInProgress) != busy && std::chrono::steady_clock::now() < end) {
    EXPECT_OK(tuttiCommGetAsyncError(comm, &error), comm);
    std::this_thread::yield();
  }
  EXPECT_EQ(error == tuttiInProgress, busy);
}

int sum_over(tuttiComm_t comm, int value) {
  int sum = -1;
  EXPECT_OK(tuttiAllReduce(&value, &sum, 1, tuttiInt32, tuttiSum, comm, tuttiBlocking()), comm);
  return sum;
}

tuttiCall_t call_of(tuttiCollective_t collective, const int* send, int* recv, size_t count) {
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  call.collective = collective;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.type = tuttiInt32;
  return call;
}

std::string message_of(tuttiComm_t comm) { return tuttiGetLastError(comm); }

}  // namespace tutti::api_test
