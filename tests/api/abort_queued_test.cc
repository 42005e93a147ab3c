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
  /// What was queued on it has been ended.
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
    EXPECT_EQ(tuttiCommAbort(second_), blocking_ ? tuttiSuccess : tuttiInProgress);
    EXPECT_EQ(blocking_ ? tuttiSuccess : settle(second_), tuttiSuccess);
    second_ = nullptr;
  }

 private:
  const bool blocking_;
  tuttiComm_t first_ = nullptr, second_ = nullptr;
  float value_ = 1;
};

/// The operation of one communicator holds up that of another on their stream. What ends the other
/// one waits for neither.
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

}  // namespace
}  // namespace tutti::api_test
