// A short call of high priority that comes behind a long one of low priority begins within one
// chunk of it: what the long one has written is read in the thread that runs both, so chunks are
// counted and nothing is timed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"

namespace tutti::api_test {
namespace {

constexpr size_t kLong = 8 << 20;
constexpr size_t kShort = 64 << 10;
constexpr size_t kChunk = 256 << 10;

tuttiCall_t call_of(tuttiCollective_t collective, const void* send, void* recv, size_t bytes) {
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  call.collective = collective;
  call.send = send;
  call.recv = recv;
  call.count = bytes;
  call.type = tuttiUint8;
  return call;
}

/// A long call under way, a gate that opens in the engine's thread, and a short call that is made
/// there. Callbacks and calls run in one thread, so they read what was written before them.
class Overtaking {
 public:
  /// `behind`: the short call is put behind the long one in its stream, where no priority helps.
  explicit Overtaking(bool behind) : behind_(behind) {
    EXPECT_EQ(tuttiCommInitAll(gate_.data(), 2, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommInitAll(pair_.data(), 2, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommInitAll(&alone_, 1, nullptr), tuttiSuccess);
    for (tuttiStream_t& stream : streams_) EXPECT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
  }
  ~Overtaking() {
    for (tuttiStream_t& stream : streams_) EXPECT_OK(tuttiStreamDestroy(stream), nullptr);
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (tuttiComm_t comm : {gate_[0], gate_[1], pair_[0], pair_[1], alone_}) {
      EXPECT_OK(tuttiCommDestroy(comm), comm);
    }
    EXPECT_OK(tuttiGroupEnd(), nullptr);
  }

  /// The chunks that the long call wrote between the making and the end of the short one; -1 where
  /// it had not begun or had ended already.
  int64_t round() {
    std::memset(target_.data(), 0, kLong);
    made_at_ = ended_at_ = 0;
    tuttiRequest_t opened = nullptr, copied = nullptr;
    tuttiCall_t barrier = TUTTI_CALL_INITIALIZER;
    EXPECT_OK(tuttiSubmit(&barrier, gate_[0], streams_[0], nullptr, &opened), gate_[0]);
    EXPECT_OK(tuttiRequestNotify(opened, &Overtaking::on_gate, this), gate_[0]);
    tuttiCall_t receive = call_of(tuttiCollRecv, nullptr, target_.data(), kLong);
    receive.root = 1;
    EXPECT_OK(tuttiSubmit(&receive, pair_[0], streams_[1], nullptr, &copied), pair_[0]);
    std::thread sender([&] {
      EXPECT_OK(tuttiSend(source_.data(), kLong, tuttiUint8, 0, pair_[1], tuttiBlocking()),
                pair_[1]);
    });
    std::thread opener([&] { EXPECT_OK(tuttiBarrier(gate_[1], tuttiBlocking()), gate_[1]); });
    EXPECT_OK(tuttiRequestWait(opened), gate_[0]);
    EXPECT_OK(tuttiRequestWait(copied), pair_[0]);
    for (tuttiStream_t stream : streams_) EXPECT_OK(tuttiStreamSynchronize(stream), alone_);
    sender.join();
    opener.join();
    EXPECT_EQ(written(), kLong);
    EXPECT_EQ(short_target_, short_source_);
    if (made_at_ == 0 || made_at_ == kLong) return -1;
    return static_cast<int64_t>((ended_at_ - made_at_ + kChunk - 1) / kChunk);
  }

 private:
  static void on_gate(tuttiRequest_t, tuttiResult_t, void* context) {
    auto* self = static_cast<Overtaking*>(context);
    self->made_at_ = self->written();
    const tuttiCall_t copy =
        call_of(tuttiCollAllReduce, self->short_source_.data(), self->short_target_.data(), kShort);
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.priority = 1;
    tuttiRequest_t request = nullptr;
    EXPECT_OK(
        tuttiSubmit(&copy, self->alone_, self->streams_[self->behind_ ? 1 : 2], &options, &request),
        self->alone_);
    EXPECT_OK(tuttiRequestNotify(request, &Overtaking::on_short, context), self->alone_);
  }
  static void on_short(tuttiRequest_t request, tuttiResult_t, void* context) {
    auto* self = static_cast<Overtaking*>(context);
    self->ended_at_ = self->written();
    EXPECT_OK(tuttiRequestWait(request), self->alone_);
  }

  size_t written() const {
    const void* zero = std::memchr(target_.data(), 0, kLong);
    return zero == nullptr
               ? kLong
               : static_cast<size_t>(static_cast<const uint8_t*>(zero) - target_.data());
  }

  const bool behind_;
  std::array<tuttiComm_t, 2> gate_{}, pair_{};
  tuttiComm_t alone_ = nullptr;
  std::vector<tuttiStream_t> streams_ = std::vector<tuttiStream_t>(3);
  std::vector<uint8_t> source_ = std::vector<uint8_t>(kLong, 7);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kLong);
  std::vector<uint8_t> short_source_ = std::vector<uint8_t>(kShort, 9);
  std::vector<uint8_t> short_target_ = std::vector<uint8_t>(kShort);
  size_t made_at_ = 0, ended_at_ = 0;
};

struct Chunks {
  int met = 0;       // rounds in which the short call came while the long one was under way
  int64_t most = 0;  // chunks between, of these rounds
};

/// Tries until the two have met so often; a busy machine may need several tries for each.
Chunks measure(bool behind, int wanted) {
  Chunks chunks;
  Overtaking overtaking(behind);
  for (int tries = 0; tries < 10 * wanted && chunks.met < wanted; ++tries) {
    const int64_t between = overtaking.round();
    if (between < 0) continue;
    ++chunks.met;
    chunks.most = std::max(chunks.most, between);
  }
  return chunks;
}

TEST(Overtaking, AShortUrgentCallBeginsWithinAChunkOfALongOne) {
  const Chunks urgent = measure(false, 200);
  std::printf(
      "64 KiB of high priority met 8 MiB of low priority %d times, and waited for %lld "
      "chunks of 256 KiB at most\n",
      urgent.met, static_cast<long long>(urgent.most));
  EXPECT_GT(urgent.met, 0);
  EXPECT_LE(urgent.most, 1);
}

// The same count sees a call that waits for all of the long one.
TEST(Overtaking, BehindTheLongCallInItsStreamItWaitsForAllChunks) {
  const Chunks patient = measure(true, 20);
  EXPECT_GT(patient.met, 0);
  EXPECT_GT(patient.most, 1);
}

}  // namespace
}  // namespace tutti::api_test
