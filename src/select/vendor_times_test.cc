#include "src/select/vendor_times.h"

#include <gtest/gtest.h>

namespace tutti::select {
namespace {

TEST(VendorTimes, BetweenMeasuredCallsAreThoseInBetweenAndBeyondThemTheNearest) {
  const std::vector<VendorTimes> known = {
      {.collective = "all_reduce", .ranks = 8, .calls = {{1000, 10'000}, {3000, 20'000}}}};
  const auto ns = [&](double bytes) {
    return predict_vendor_ns(known, "all_reduce", 8, bytes).value_or(-1);
  };
  EXPECT_DOUBLE_EQ(ns(8), 10'000);
  EXPECT_DOUBLE_EQ(ns(1000), 10'000);
  EXPECT_DOUBLE_EQ(ns(2000), 15'000);
  EXPECT_DOUBLE_EQ(ns(3000), 20'000);
  EXPECT_DOUBLE_EQ(ns(6000), 40'000);
}

TEST(VendorTimes, NothingIsKnownOfOtherGroupsAndCollectives) {
  const std::vector<VendorTimes> known = {
      {.collective = "all_reduce", .ranks = 8, .calls = {{1000, 10'000}}}};
  EXPECT_FALSE(predict_vendor_ns(known, "all_reduce", 4, 1000));
  EXPECT_FALSE(predict_vendor_ns(known, "reduce", 8, 1000));
  EXPECT_FALSE(predict_vendor_ns({}, "all_reduce", 8, 1000));
}

}  // namespace
}  // namespace tutti::select
