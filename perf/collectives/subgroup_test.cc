#include "perf/collectives/subgroup.h"

#include <gtest/gtest.h>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

TEST(Subgroup, ColorsAreThoseOfNcclTests) {
  EXPECT_EQ(color_of("AND 0x7", 13), 5);
  EXPECT_EQ(color_of("&7", 13), 5);
  EXPECT_EQ(color_of("or 0b11", 4), 7);
  EXPECT_EQ(color_of("| 3", 4), 7);
  EXPECT_EQ(color_of("MOD 8", 13), 5);
  EXPECT_EQ(color_of("%8", 13), 5);
  EXPECT_EQ(color_of("DIV8", 13), 1);
  EXPECT_EQ(color_of("/ 8", 13), 1);
  for (const char* split :
       {"", "8", "AND", "MOD 0", "XOR 3", "MOD 8x", "& -1", "AND 08", "& 0x", "| 0x80000000"}) {
    EXPECT_THROW(color_of(split, 1), PerfError) << split;
  }
  EXPECT_EQ(color_of("AND 0xffffffff", 13), 13);
}

TEST(Subgroup, MasksAreHexadecimalWithAndWithoutAPrefix) {
  for (const char* mask : {"0x1c", "0X1C", "1c", "01C", "0x1cffffffc"}) {
    EXPECT_EQ(color_by_mask(mask, 29), 28) << mask;
  }
  for (const char* mask : {"", "0x", "x7", "7g", "-1", "0x0x7", " 7"}) {
    EXPECT_THROW(color_by_mask(mask, 1), PerfError) << mask;
  }
}

}  // namespace
}  // namespace tutti::perf
