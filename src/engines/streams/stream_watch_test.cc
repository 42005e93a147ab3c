#include "src/engines/streams/stream_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tutti::engines::streams {
namespace {

/// Streams of rank 0 of three that the test moves by hand.
struct HandMoved final : StreamWords {
  uint64_t past = 0;
  std::optional<int> late;
  std::optional<diagnosis::Loss> loss;
  std::optional<CallDifference> difference;
  mutable int looks_until_difference = 0;  // 0: none comes
  int releases = 0;
  std::pair<uint64_t, std::optional<int>> told;

  uint64_t finished() const override { return past; }
  std::optional<int> find_late(const PendingCall& /*call*/) const override { return late; }
  void tell_wait(uint64_t number, std::optional<int> one) override { told = {number, one}; }
  int find_culprit(int one) const override { return one + 1; }
  std::string reason(const PendingCall& /*call*/, std::optional<int> one) const override {
    return one ? "it waits for rank " + std::to_string(*one) : "nobody is late";
  }
  std::optional<diagnosis::Loss> find_loss() const override { return loss; }
  std::optional<CallDifference> find_difference() const override {
    if (looks_until_difference == 0 || --looks_until_difference > 0) return difference;
    return CallDifference{Status::invalid_usage("the two calls differ"), 2};
  }
  bool may_find_difference() const override { return looks_until_difference > 0; }
  void release() override { ++releases; }
};

class StreamWatchTest : public ::testing::Test {
 protected:
  static std::string name_of(int rank) { return "rank " + std::to_string(rank); }
  WatchOwner owner() {
    return {.failure = [this] { return failure_; },
            .fail =
                [this](Status why, diagnosis::Cause cause) {
                  failure_ = std::move(why);
                  cause_ = cause;
                },
            .publish = [this] { ++published_; }};
  }
  PendingCall call(uint64_t deadline_ns = kNoDeadline) {
    PendingCall made;
    made.call.place = watch_.next_place();
    made.call.what = "all_reduce";
    made.deadline_ns = deadline_ns;
    made.over = [this](const Status& status) { over_.push_back(status); };
    return made;
  }

  HandMoved words_;
  Status failure_;
  diagnosis::Cause cause_;
  int published_ = 0;
  std::vector<Status> over_;
  StreamWatch watch_{words_, {.rank = 0, .manner = "by hand", .name_of = name_of}, owner()};
};

TEST_F(StreamWatchTest, CallsAreOverInTheirOrderOnceTheStreamsArePastThem) {
  for (int i = 0; i < 3; ++i) watch_.keep(call());
  EXPECT_TRUE(watch_.look());
  EXPECT_TRUE(over_.empty());
  words_.past = 2;
  EXPECT_TRUE(watch_.look());
  EXPECT_EQ(over_.size(), 2u);
  words_.past = 3;
  EXPECT_FALSE(watch_.look());
  ASSERT_EQ(over_.size(), 3u);
  EXPECT_TRUE(over_.back().ok());
  EXPECT_EQ(words_.releases, 0);
}

TEST_F(StreamWatchTest, PeersAreToldOfTheFirstCallThatTheStreamsAreNotPast) {
  for (uint64_t number = 1; number <= 2; ++number) {
    PendingCall made = call();
    made.call.number = number;
    watch_.keep(std::move(made));
  }
  words_.past = 1;
  words_.late = 2;
  EXPECT_TRUE(watch_.look());
  EXPECT_EQ(words_.told, (std::pair<uint64_t, std::optional<int>>(2, 2)));
  words_.past = 2;
  EXPECT_FALSE(watch_.look());
  EXPECT_EQ(words_.told, (std::pair<uint64_t, std::optional<int>>(3, std::nullopt)));
}

TEST_F(StreamWatchTest, ADeadlineNamesTheCulpritAndLetsTheStreamsGoOnUntilTheyArePast) {
  words_.late = 1;
  watch_.keep(call(/*deadline_ns=*/1));
  EXPECT_TRUE(watch_.look());
  EXPECT_EQ(failure_.code(), Code::kTimeout);
  EXPECT_EQ(failure_.message(),
            "all_reduce by hand on rank 0 passed its deadline: it waits for rank 2");
  EXPECT_EQ(cause_.rank, 2);
  EXPECT_TRUE(watch_.look());
  EXPECT_EQ(words_.releases, 2);  // again: a living peer may have written its own value
  EXPECT_EQ(published_, 2);
  words_.past = 1;
  EXPECT_FALSE(watch_.look());
  EXPECT_EQ(words_.releases, 2);
  ASSERT_EQ(over_.size(), 1u);
  EXPECT_EQ(over_[0].code(), Code::kTimeout);
}

TEST_F(StreamWatchTest, ADeadlineOfACallThatWaitsForNobodyBlamesItsOwnRank) {
  watch_.keep(call(/*deadline_ns=*/1));
  watch_.look();
  EXPECT_EQ(cause_.rank, 0);
  EXPECT_NE(std::string(failure_.message()).find("nobody is late"), std::string::npos);
}

TEST_F(StreamWatchTest, APeerThatGaveUpIsFollowed) {
  watch_.keep(call());
  words_.loss = diagnosis::Loss{1, {2, -1}};
  EXPECT_TRUE(watch_.look());
  EXPECT_EQ(failure_.message(), "all_reduce by hand on rank 0: rank 1 gave up because of rank 2");
  EXPECT_EQ(cause_.rank, 2);
  EXPECT_EQ(words_.releases, 1);
}

TEST_F(StreamWatchTest, ADifferenceSaysMoreThanThatAPeerGaveUp) {
  words_.loss = diagnosis::Loss{1, {0, 1}};
  words_.difference = CallDifference{Status::invalid_usage("the two calls differ"), 1};
  watch_.keep(call());
  watch_.look();
  EXPECT_EQ(failure_.message(), "the two calls differ");
  EXPECT_EQ(cause_, (diagnosis::Cause{1, 0}));
}

TEST_F(StreamWatchTest, APeerThatIsAboutToTellOfItsCallIsWaitedForBeforeHearsayIsRepeated) {
  words_.loss = diagnosis::Loss{1, {2, 1}};
  words_.looks_until_difference = 3;
  watch_.keep(call());
  watch_.look();
  EXPECT_EQ(failure_.message(), "the two calls differ");
}

TEST_F(StreamWatchTest, APeerThatNeverTellsOfItsCallIsNotWaitedForForever) {
  words_.loss = diagnosis::Loss{1, {2, 1}};
  words_.looks_until_difference = 1'000'000'000;
  watch_.keep(call());
  watch_.look();
  EXPECT_EQ(failure_.message(),
            "all_reduce by hand on rank 0: rank 1 gave up, since calls differ, because of rank 2");
}

TEST_F(StreamWatchTest, StreamsOfAnOwnerThatIsGoneAreLetGoOnAndNobodyIsAsked) {
  watch_.keep(call(/*deadline_ns=*/1));
  watch_.abandon();
  words_.loss = diagnosis::Loss{1, {2, -1}};
  EXPECT_TRUE(watch_.look());
  EXPECT_TRUE(failure_.ok());
  EXPECT_EQ(published_, 0);
  EXPECT_EQ(words_.releases, 1);
  watch_.while_alive([](const WatchOwner&) { FAIL() << "the owner is gone"; });
}

TEST_F(StreamWatchTest, OfAFailedCommunicatorNothingIsSaidAgain) {
  watch_.keep(call());
  failure_ = Status::remote_error("aborted");
  words_.loss = diagnosis::Loss{1, {2, -1}};
  watch_.look();
  EXPECT_EQ(failure_.message(), "aborted");
  watch_.while_alive([](const WatchOwner&) { FAIL() << "it has failed"; });
}

}  // namespace
}  // namespace tutti::engines::streams
