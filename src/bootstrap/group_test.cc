#include "src/bootstrap/group.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace tutti::bootstrap {
namespace {

TEST(Group, BlobsFromOutsideAreNotBelieved) {
  Group group;
  EXPECT_TRUE(group.join(1, {2, 0, 0, 1}, "b").ok());
  EXPECT_TRUE(group.join(0, {2, 0, 0, 1}, "").ok());
  const std::string good = group.encode();
  EXPECT_EQ(decode_blobs(good, 2).value(), (std::vector<std::string>{"", "b"}));
  EXPECT_FALSE(decode_blobs(good, 1).ok());
  EXPECT_FALSE(decode_blobs(good, 3).ok());
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_FALSE(decode_blobs(std::string_view(good).substr(0, bytes), 2).ok());
  }
  std::string huge = good;
  huge[3] = '\x7f';
  EXPECT_FALSE(decode_blobs(huge, 2).ok());
}

// They are counted, so that the ranks keep their numbers, but neither awaited nor missed.
TEST(Group, GoesWithoutTheLeftOut) {
  Group group({0, 2});
  const ExchangeKey exchange_key{5, 0, 0, 1};
  EXPECT_TRUE(group.join(3, exchange_key, "d").ok());
  EXPECT_EQ(group.missing(), "ranks 1, 4 of 5 did not come");
  EXPECT_TRUE(group.join(4, exchange_key, "e").ok());
  EXPECT_FALSE(group.complete());
  EXPECT_TRUE(group.join(1, exchange_key, "b").ok());
  EXPECT_TRUE(group.complete());
  EXPECT_EQ(decode_blobs(group.encode(), 5).value(),
            (std::vector<std::string>{"", "b", "", "d", "e"}));
}

}  // namespace
}  // namespace tutti::bootstrap
