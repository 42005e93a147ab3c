#include "tools/cli/arguments.h"

#include <gtest/gtest.h>

#include "src/registry/algorithms.h"

namespace tutti::cli {
namespace {

TEST(Arguments, RanksAreANumberOrARange) {
  EXPECT_EQ(parse_ranks("8", 8), (std::vector<int>{8}));
  EXPECT_EQ(parse_ranks("1-3", 8), (std::vector<int>{1, 2, 3}));
  for (const char* text : {"", "0", "9", "7-9", "3-2", "-3", "1-", "1--2", "8 ", "x", "1-2-3"}) {
    EXPECT_TRUE(parse_ranks(text, 8).empty()) << text;
  }
}

TEST(Arguments, AnAlgorithmIsNamedByItselfItsCollectiveOrNothing) {
  const schedule::Algorithm* ring = registry::find(schedule::Collective::kAllReduce, "ring");
  ASSERT_NE(ring, nullptr);
  EXPECT_EQ(full_name(*ring), "all_reduce/ring");
  for (const char* name : {"", "all_reduce", "all_reduce/ring"}) {
    EXPECT_TRUE(is_named(*ring, name)) << name;
  }
  for (const char* name : {"ring", "all_gather", "all_gather/ring"}) {
    EXPECT_FALSE(is_named(*ring, name)) << name;
  }
}

}  // namespace
}  // namespace tutti::cli
