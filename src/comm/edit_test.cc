#include "src/comm/edit.h"

#include <gtest/gtest.h>

namespace tutti::comm {
namespace {

Proposal proposal(int color, int key) {
  Proposal made;
  made.what = "split";
  made.color = color;
  made.key = key;
  made.nonce = std::to_string(color) + " " + std::to_string(key);
  return made;
}

TEST(Edit, ProposalsSurviveTheWire) {
  Proposal sent = proposal(-1, -2147483647 - 1);
  sent.argument = "to 5 ranks";
  sent.secret = std::string("\0x", 2);
  const Result<Proposal> read = Proposal::decode(sent.encode());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().encode(), sent.encode());
  EXPECT_EQ(read.value().key, sent.key);
  EXPECT_EQ(read.value().secret, sent.secret);
}

TEST(Edit, EveryTruncatedProposalIsRefused) {
  const std::string bytes = proposal(1, 2).encode();
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(Proposal::decode(bytes.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(Proposal::decode(bytes + bytes).ok());
}

TEST(Edit, DisagreementNamesBoth) {
  Proposal other = proposal(0, 0);
  other.argument = "otherwise";
  const auto agreed =
      agree({proposal(0, 0).encode(), proposal(1, 0).encode(), other.encode()}, {1, 4, 6});
  EXPECT_EQ(agreed.status().code(), Code::kInvalidUsage);
  const std::string message(agreed.status().message());
  EXPECT_NE(message.find("rank 1 called split,"), std::string::npos) << message;
  EXPECT_NE(message.find("rank 6 called split (otherwise)"), std::string::npos) << message;
}

TEST(Edit, ColoursInTheOrderOfKeysThenRanks) {
  const std::vector<Proposal> all = {proposal(0, 5), proposal(1, 0), proposal(0, -1),
                                     proposal(0, 5), proposal(-1, 0)};
  EXPECT_EQ(with_color(all, 0), (std::vector<int>{2, 0, 3}));
  EXPECT_EQ(with_color(all, 1), (std::vector<int>{1}));
  EXPECT_TRUE(with_color(all, 7).empty());
  EXPECT_NE(salt_of(all, 0), salt_of(all, 1));
}

TEST(Edit, Survivors) {
  const int excluded[] = {3, 1, 3, 4, -1};
  EXPECT_EQ(survivors(4, excluded, 2).value(), (std::vector<int>{0, 2}));
  EXPECT_EQ(survivors(2, nullptr, 0).value(), (std::vector<int>{0, 1}));
  EXPECT_FALSE(survivors(4, excluded, 3).ok());
  EXPECT_FALSE(survivors(4, excluded + 3, 1).ok());
  EXPECT_FALSE(survivors(4, excluded + 4, 1).ok());
}

}  // namespace
}  // namespace tutti::comm
