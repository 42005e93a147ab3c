#include "src/engines/streams/begun_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace tutti::engines::streams {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Three ranks, whose calls have their counts as signatures. Calls of 1000 elements and more are
/// not known any more.
class BegunKernelsTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kForgotten = 1000;

  BegunKernelsTest() {
    for (int rank = 0; rank < 3; ++rank) words_.push_back(std::make_unique<FusedWords>());
  }

  void begin(size_t rank, uint32_t number, uint32_t count) {
    words_[rank]->begun[number % FusedWords::kRecent].store(uint64_t{number} << 32 | count);
  }
  BegunKernels kernels_of(int rank) const {
    BegunKernels::RanksOfKernels ranks;
    for (const auto& one : words_) ranks.words.push_back(one.get());
    ranks.rank = rank;
    ranks.name_of = [](int other) { return "rank " + std::to_string(other); };
    ranks.find_call = [](size_t, uint32_t signature) -> std::optional<diagnosis::DescribedCall> {
      if (signature >= kForgotten) return std::nullopt;
      diagnosis::DescribedCall call;
      call.collective = schedule::Collective::kAllReduce;
      call.count = signature;
      return call;
    };
    return BegunKernels(std::move(ranks));
  }
  std::string difference(int rank) const {
    const std::optional<CallDifference> found = kernels_of(rank).find_difference();
    return found ? std::string(found->status.message()) + " by " + std::to_string(found->peer) : "";
  }

  std::vector<std::unique_ptr<FusedWords>> words_;
};

TEST_F(BegunKernelsTest, EqualCallsAreEqualHoweverFarEachRankHasCome) {
  for (uint32_t number = 2; number < 50; ++number) {
    for (size_t rank = 0; rank < 3; ++rank) {
      begin(rank, number + static_cast<uint32_t>(rank), 7 * (number + uint32_t(rank)));
      for (int one = 0; one < 3; ++one) EXPECT_EQ(difference(one), "") << number;
    }
  }
}

TEST_F(BegunKernelsTest, BothCallsOfTheFirstDifferenceAreNamed) {
  for (const uint32_t number : {5u, 6u}) {
    begin(0, number, 100 + number);
    begin(1, number, 100 + number);
  }
  begin(2, 6, 7);
  begin(2, 5, 9);
  for (const int rank : {0, 1}) {
    EXPECT_THAT(difference(rank),
                HasSubstr("rank " + std::to_string(rank) + ": all_reduce of 105"));
    EXPECT_THAT(difference(rank), HasSubstr("rank 2: all_reduce of 9 "));
    EXPECT_THAT(difference(rank), HasSubstr("by 2"));
  }
  EXPECT_THAT(difference(2), HasSubstr("rank 2: all_reduce of 9 "));
}

TEST_F(BegunKernelsTest, TheFirstIsFoundWhereNumbersBeginAnew) {
  for (const uint32_t number : {~0u, 2u}) {
    begin(0, number, number == 2 ? 2 : 1);
    begin(1, number, 9);
  }
  EXPECT_THAT(difference(0), HasSubstr("rank 0: all_reduce of 1 "));
}

TEST_F(BegunKernelsTest, CallsThatAreNotKnownAnyMoreDifferToo) {
  begin(0, 4, kForgotten);
  begin(1, 4, kForgotten + 1);
  EXPECT_THAT(difference(0), HasSubstr("rank 0 and rank 1 run different calls"));
}

TEST_F(BegunKernelsTest, NothingIsKnownOnceNumbersBeginAnew) {
  begin(0, 4, 1);
  begin(1, 4, 2);
  words_[0]->forget_begun();
  begin(0, 2, 5);
  EXPECT_EQ(difference(0), "");
  EXPECT_EQ(difference(1), "");
}

TEST_F(BegunKernelsTest, TheCallInWhichARankOrAPeerWaitsIsNamed) {
  begin(0, 3, 30);
  EXPECT_EQ(kernels_of(0).describe_wait(), "");
  words_[0]->waiting[5].store(uint64_t{3} << 32 | 2);  // for rank 1
  EXPECT_THAT(kernels_of(0).describe_wait(), HasSubstr("all_reduce of 30"));
  EXPECT_THAT(kernels_of(0).describe_wait(), Not(HasSubstr(" of rank")));
  EXPECT_THAT(kernels_of(1).describe_wait(), HasSubstr("all_reduce of 30 int8 sum of rank 0"));
  EXPECT_THAT(kernels_of(2).describe_wait(), HasSubstr("of rank 0")) << "it has not come either";
  begin(2, 3, 30);
  EXPECT_EQ(kernels_of(2).describe_wait(), "");
  words_[0]->waiting[5].store(0);
  EXPECT_EQ(kernels_of(1).describe_wait(), "");
  words_[0]->expired.store(uint64_t{3} << 32 | 2);
  EXPECT_THAT(kernels_of(1).describe_wait(), HasSubstr("all_reduce of 30"));
}

}  // namespace
}  // namespace tutti::engines::streams
