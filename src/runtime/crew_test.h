// For tests: ranks as threads of this process, and what an error must say.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tutti/runtime/error.h"

namespace tutti::runtime {

/// Thrown by a body whose rank is lost on purpose: its communicator is aborted.
struct RankIsLost {};

/// Runs the body once for each rank, each in a thread of its own with its own communicator.
inline void run_ranks(int ranks, const std::function<void(tuttiComm_t comm, int rank)>& body) {
  std::vector<tuttiComm_t> comms(static_cast<size_t>(ranks));
  ASSERT_EQ(tuttiCommInitAll(comms.data(), ranks, nullptr), tuttiSuccess)
      << tuttiGetLastError(nullptr);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(comms[static_cast<size_t>(rank)], rank);
      } catch (const RankIsLost&) {
        tuttiCommAbort(comms[static_cast<size_t>(rank)]);
        return;
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
        tuttiCommAbort(comms[static_cast<size_t>(rank)]);
        return;
      }
      EXPECT_EQ(tuttiCommDestroy(comms[static_cast<size_t>(rank)]), tuttiSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// The sentence of the Error that the call throws; "" if it throws none.
inline std::string refusal(const std::function<void()>& call,
                           ErrorKind kind = ErrorKind::kInvalidInput) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "";
}

/// The call is refused, and the sentence has these words.
#define EXPECT_REFUSED(call, said)                                                          \
  EXPECT_NE(::tutti::runtime::refusal([&] { (void)(call); }).find(said), std::string::npos) \
      << "said: " << ::tutti::runtime::refusal([&] { (void)(call); })
#define EXPECT_INFEASIBLE(call, said)                                                            \
  EXPECT_NE(::tutti::runtime::refusal([&] { (void)(call); }, ErrorKind::kInfeasible).find(said), \
            std::string::npos)

}  // namespace tutti::runtime
