// Connections that do not come about, or are only asked for, and who is told of it.
#include <gtest/gtest.h>

#include "tests/support/few_descriptors.h"
#include "transports/tcp/connector_ranks_test.h"

namespace tutti::transports::tcp {
namespace {

TEST(Connector, WhoGaveUpBeforeItWasCalledSaysWhy) {
  Two two;
  const transport::Note note{{7, 0}, {8, 9}};
  two.high.link(0).tell(kNotes, note);
  EXPECT_TRUE(two.high.link(0).hang_up());  // nobody to wait for
  int received = 0;
  const auto in = receive(two.low.link(1), received);
  two.settle();
  EXPECT_FALSE(arrives(two.low.link(1), in));
  EXPECT_EQ(two.low.link(1).status().code(), Code::kRemoteError);
  transport::Note heard;
  EXPECT_EQ(two.low.link(1).heard(kNotes, heard), 1u);
  EXPECT_EQ(heard, note);
}

// A rank that asks which one is to blame calls ranks that it has nothing to do with.
TEST(Connector, AProbeOfWhoIsGoneLeavesTheLinkAsItWas) {
  Rank low(0, 2);
  {
    const Rank gone(1, 2);
    low.meet(gone);
  }
  int told = 0;
  low.link(1).on_settled([&] { ++told; });
  low.link(1).probe();
  while (low.link(1).state() == State::kWanted) low.serve();
  EXPECT_EQ(low.link(1).state(), State::kIdle);
  EXPECT_EQ(told, 0);
  low.link(1).probe();
  low.link(1).want();  // now it is more than a question
  while (low.link(1).state() == State::kWanted) low.serve();
  EXPECT_EQ(low.link(1).state(), State::kFailed);
  EXPECT_EQ(told, 1);
}

TEST(Connector, AProbeConnects) {
  Two two;
  two.low.link(1).probe();
  two.settle();
  two.expect_joined();
}

TEST(Connector, ACallWaitsForADescriptor) {
  if (testing_support::kSanitizerNeedsDescriptors)
    GTEST_SKIP() << "the sanitizer needs descriptors";
  Two two;
  {
    const testing_support::FewDescriptors few(0);
    two.low.link(1).want();
    for (int turn = 0; turn < 3; ++turn) two.low.serve();  // hears of it, and dials
    EXPECT_EQ(two.low.link(1).state(), State::kWanted);
  }
  two.settle();
  two.expect_joined();
}

// The lower rank's call would win if it were out.
TEST(Connector, WhoWaitsForADescriptorTakesThePeersCall) {
  if (testing_support::kSanitizerNeedsDescriptors)
    GTEST_SKIP() << "the sanitizer needs descriptors";
  Two two;
  two.high.link(0).want();
  for (int turn = 0; turn < 3; ++turn) two.high.serve();  // hears of it, and dials
  EXPECT_TRUE(two.low.serve()) << "lets it in, and it has yet to prove itself";
  const testing_support::FewDescriptors few(0);
  two.low.link(1).want();
  for (int turn = 0; turn < 3; ++turn) two.low.serve();
  EXPECT_EQ(two.low.link(1).state(), State::kWanted);
  while (two.low.link(1).state() == State::kWanted) {
    two.high.serve(1);
    two.low.serve(1);
  }
  two.settle();
  two.expect_joined();
}

TEST(Connector, ALinkTellsOnceThatItHasADescriptor) {
  Two two;
  int told = 0;
  two.low.link(1).on_settled([&] {
    ++told;
    EXPECT_GE(two.low.link(1).descriptor(), 0);
  });
  two.settle();
  EXPECT_EQ(told, 0);
  two.high.link(0).want();
  two.settle();
  EXPECT_EQ(told, 1);
  two.low.link(1).on_settled([&] { ++told; });  // at once
  EXPECT_EQ(told, 2);
}

TEST(Connector, ALinkTellsThatItFailed) {
  Rank low(0, 2);
  {
    const Rank gone(1, 2);
    low.meet(gone);
  }
  int told = 0;
  low.link(1).on_settled([&] { ++told; });
  low.link(1).want();
  while (low.link(1).state() == State::kWanted) low.serve();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(low.link(1).state(), State::kFailed);
}

}  // namespace
}  // namespace tutti::transports::tcp
