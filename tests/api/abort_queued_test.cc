// Ends of communicators with operations on HOST streams that wait for a rank which comes late:
// whatever waits for those operations, an abort ends it.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"

namespace tutti::api_test {
namespace {

constexpr auto kHang = std::chrono::seconds(30);

class Stream {
 public:
  Stream() { EXPECT_OK(tuttiStreamCreate(&stream_), nullptr); }
  /// The operation that was queued on it has been ended.
  ~Stream() { EXPECT_EQ(tuttiStreamDestroy(stream_), tuttiRemoteError); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  tuttiStream_t get() const { return stream_; }

 private:
  tuttiStream_t stream_{};
};

/// Two ranks, of which the first has queued what the second never takes part in.
class Pair {
 public:
  Pair(bool blocking, const Stream& stream) : blocking_(blocking) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    tuttiUniqueId id;
    EXPECT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(tuttiCommInitRankConfig(rank == 0 ? &first_ : &second_, 2, id, rank, &config),
                tuttiSuccess);
    }
    EXPECT_EQ(tuttiGroupEnd(), blocking ? tuttiSuccess : tuttiInProgress);
    EXPECT_EQ(settle(first_), tuttiSuccess);
    EXPECT_EQ(settle(second_), tuttiSuccess);
    EXPECT_OK(tuttiAllReduce(&value_, &value_, 1, tuttiFloat32, tuttiSum, first_, stream.get()),
              first_);
  }
  ~Pair() { abort_second(); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  tuttiComm_t first() const { return first_; }
  /// Ends what the first waits for, too, where the test has failed.
  void abort_second() {
    if (second_ == nullptr) return;
    if (blocking_) {
      EXPECT_EQ(tuttiCommAbort(second_), tuttiSuccess);
    } else {
      abort_making(second_);
    }
    second_ = nullptr;
  }

 private:
  const bool blocking_;
  tuttiComm_t first_ = nullptr, second_ = nullptr;
  float value_ = 1;
};

/// Asks until the answer is another one, but not for ever.
tuttiResult_t ask_while(tuttiResult_t answer, const std::function<tuttiResult_t()>& ask) {
  const auto end = std::chrono::steady_clock::now() + kHang;
  tuttiResult_t result = answer;
  while ((result = ask()) == answer && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return result;
}

tuttiResult_t async_error_of(tuttiComm_t comm) {
  tuttiResult_t error = tuttiSuccess;
  EXPECT_OK(tuttiCommGetAsyncError(comm, &error), comm);
  return error;
}

/// The operation of one communicator holds up that of another on their stream. The call that ends
/// the other one waits for neither.
void end_in_line(const std::function<void(tuttiComm_t held)>& end) {
  const Stream stream;
  const Pair holding(true, stream), held(true, stream);
  const auto ended = std::async(std::launch::async, end, held.first());
  EXPECT_EQ(ended.wait_for(kHang), std::future_status::ready);
  EXPECT_OK(tuttiCommAbort(holding.first()), holding.first());
  ended.wait();
}

TEST(AbortQueued, BehindAnotherCommunicator) {
  end_in_line([](tuttiComm_t held) { EXPECT_OK(tuttiCommAbort(held), held); });
}

TEST(AbortQueued, RevokedBehindAnotherCommunicator) {
  end_in_line([](tuttiComm_t held) {
    EXPECT_OK(tuttiCommRevoke(held, TUTTI_REVOKE_DEFAULT), held);
    EXPECT_OK(tuttiCommDestroy(held), held);
  });
}

// Another thread destroys it, or begins to.
std::future<tuttiResult_t> destroy(tuttiComm_t comm) {
  std::future<tuttiResult_t> destroyed = std::async(std::launch::async, tuttiCommDestroy, comm);
  const auto ask = [comm] {
    int ranks = 0;
    return tuttiCommCount(comm, &ranks);
  };
  EXPECT_EQ(ask_while(tuttiSuccess, ask), tuttiInvalidUsage);
  return destroyed;
}

// The destroy leaves the end to the call before it, and the abort comes last.
void abort_what_is_destroyed_after(bool blocking,
                                   const std::function<tuttiResult_t(tuttiComm_t comm)>& call) {
  const Stream stream;
  Pair pair(blocking, stream);
  tuttiComm_t comm = pair.first();
  auto called = std::async(std::launch::async, call, comm);
  EXPECT_EQ(ask_while(tuttiSuccess, [&] { return async_error_of(comm); }), tuttiInProgress);
  auto destroyed = destroy(comm);
  EXPECT_EQ(tuttiCommAbort(comm), tuttiInvalidUsage) << "the destroy has begun";
  if (blocking) {
    EXPECT_EQ(destroyed.wait_for(kHang), std::future_status::ready);
  } else {
    EXPECT_EQ(settle(comm), tuttiSuccess);
  }
  pair.abort_second();
  EXPECT_EQ(destroyed.get(), blocking ? tuttiSuccess : tuttiInProgress);
  EXPECT_EQ(called.get(), blocking ? tuttiRemoteError : tuttiInProgress);
}

TEST(AbortQueued, EndsADestroyThatWaitsForAFinalize) {
  for (const bool blocking : {true, false}) {
    abort_what_is_destroyed_after(blocking, tuttiCommFinalize);
  }
}

TEST(AbortQueued, EndsADestroyThatWaitsForASplit) {
  for (const bool blocking : {true, false}) {
    tuttiComm_t child = nullptr;
    abort_what_is_destroyed_after(blocking, [&child](tuttiComm_t comm) {
      return tuttiCommSplit(comm, 0, 0, &child, nullptr);
    });
    if (child == nullptr) continue;
    EXPECT_EQ(settle(child), tuttiRemoteError);
    EXPECT_OK(tuttiCommDestroy(child), child);
  }
}

// A thread that asks for the error does not wait for a call that another thread begins meanwhile.
TEST(AbortQueued, WhoAsksForTheErrorWaitsForNoFinalize) {
  constexpr int kRounds = 40, kWatchdogs = 4;
  for (int round = 0; round < kRounds; ++round) {
    const Stream stream;
    Pair pair(false, stream);
    tuttiComm_t comm = pair.first();
    std::vector<std::future<tuttiResult_t>> watchdogs;
    for (int i = 0; i < kWatchdogs; ++i) {
      watchdogs.push_back(std::async(std::launch::async, [comm] {
        tuttiResult_t error = tuttiSuccess;
        while (error == tuttiSuccess) error = async_error_of(comm);
        return error;
      }));
    }
    EXPECT_EQ(tuttiCommFinalize(comm), tuttiInProgress);
    for (const auto& watchdog : watchdogs) {
      EXPECT_EQ(watchdog.wait_for(kHang), std::future_status::ready);
    }
    EXPECT_EQ(tuttiCommAbort(comm), tuttiInProgress);
    for (auto& watchdog : watchdogs) EXPECT_EQ(watchdog.get(), tuttiInProgress);
    EXPECT_EQ(settle(comm), tuttiSuccess);
  }
}

}  // namespace
}  // namespace tutti::api_test
