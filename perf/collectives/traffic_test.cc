#include "perf/collectives/traffic.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "perf/collectives/collective.h"
#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

constexpr Collective kUneven = Collective::kAllToAllV;
using Sizes = std::vector<size_t>;

TEST(Traffic, SpreadGoesFromEqualBlocksToDistances) {
  const auto blocks = [](double spread) {
    return shape_of(kUneven, 60, {2, 4, 0}, Traffic(spread)).send_blocks;
  };
  EXPECT_EQ(blocks(1), (Sizes{20, 30, 0, 10}));
  EXPECT_EQ(blocks(0), (Sizes{15, 15, 15, 15}));
  EXPECT_EQ(blocks(0.5), (Sizes{17, 22, 7, 12}));
}

TEST(Traffic, AMatrixIsInBytesAndNeedNotBeBalanced) {
  const Traffic traffic(parse_traffic_matrix("0 8 9\n\n100 4 0\n 16 0 0", 1, "matrix"));
  const Traffic floats = traffic.of_elements(4);
  EXPECT_EQ(traffic.largest(0, 3), 116u) << "what rank 0 receives";
  EXPECT_EQ(floats.settled(1000, 3), 29u) << "the size that was asked for does not count";
  EXPECT_EQ(floats.settled(1000, 2), 26u) << "the first rows and columns";
  const Shape first = shape_of(kUneven, 29, {0, 3, 0}, floats);
  EXPECT_EQ(first.send_blocks, (Sizes{0, 2, 2}));
  EXPECT_EQ(first.recv_blocks, (Sizes{0, 25, 4}));
  EXPECT_EQ(first.largest_count, 29u);
  const auto expected = expected_blocks(kUneven, 29, {1, 3, 0}, floats);
  ASSERT_EQ(expected.size(), 3u);
  EXPECT_EQ(expected[0].first, 0u);
  EXPECT_EQ(expected[0].count, 2u);
  EXPECT_EQ(expected[1].first, 25u);
  EXPECT_EQ(expected[1].count, 1u);
  EXPECT_EQ(parse_traffic_matrix("3", 1.5, "matrix").at(0, 0), 4u);
}

TEST(Traffic, MatricesThatAreNoneAreExplained) {
  for (const auto& [text, wanted] :
       std::vector<std::pair<const char*, const char*>>{{"", "has 0 rows"},
                                                        {"1 2\n3", "row 2 has 1 numbers"},
                                                        {"1 2\n", "1 rows of 2"},
                                                        {"1\n2\n", "2 rows of 1"},
                                                        {"1 -2\n3 4\n", "row 1: '-2'"},
                                                        {"1 2x\n3 4\n", "row 1: '2x'"},
                                                        {"1 2\nnan 4\n", "row 2: 'nan'"},
                                                        {"1e300", "'1e300'"}}) {
    try {
      parse_traffic_matrix(text, 1, "the file");
      ADD_FAILURE() << text;
    } catch (const PerfError& error) {
      EXPECT_NE(std::string(error.what()).find(wanted), std::string::npos) << error.what();
      EXPECT_EQ(error.exit_code, kExitUsage);
    }
  }
}

}  // namespace
}  // namespace tutti::perf
