#include "src/base/decimal.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/decimal_comma.h"

namespace tutti {
namespace {

TEST(Decimal, ReadsWholeNumbersOnly) {
  EXPECT_EQ(parse_decimal("32.5"), 32.5);
  EXPECT_EQ(parse_decimal("1e3"), 1000);
  EXPECT_EQ(parse_decimal("-2"), -2);
  for (const char* wrong : {"", " 1", "1 ", "+1", "1,5", "1.5x", "inf", "nan", "1e999"}) {
    EXPECT_FALSE(parse_decimal(wrong)) << wrong;
  }
}

TEST(Decimal, ThreeDigitsForPeople) {
  EXPECT_EQ(three_digits(8.30576), "8.31");
  EXPECT_EQ(three_digits(17.26), "17.3");
  EXPECT_EQ(three_digits(123.4), "123");
  EXPECT_EQ(three_digits(1234567.8), "1234568");
  EXPECT_EQ(three_digits(0.0123456), "0.0123");
  EXPECT_EQ(three_digits(0), "0");
  EXPECT_EQ(three_digits(-1.5), "-1.50");
  EXPECT_EQ(three_digits(std::numeric_limits<double>::infinity()), "inf");
}

TEST(Decimal, ADecimalCommaChangesNothing) {
  const testing_support::DecimalComma locale;
  if (!locale.is_set()) GTEST_SKIP() << "this C library has locales of another form";
  EXPECT_EQ(parse_decimal("32.5"), 32.5);
  EXPECT_FALSE(parse_decimal("32,5"));
  EXPECT_EQ(three_digits(1.5), "1.50");
  EXPECT_EQ(fixed_digits(1.5, 6), "1.500000");
}

}  // namespace
}  // namespace tutti
