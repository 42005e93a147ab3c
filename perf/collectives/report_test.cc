#include "perf/collectives/report.h"

#include <gtest/gtest.h>

namespace tutti::perf {
namespace {

std::string footer_after_a_line(const PerfOptions& options) {
  Report report(options, {});
  Line line{{8, tuttiFloat32, tuttiSum, 0}, 8, 2, 2, 0, {}, {}, {}, {}};
  line.out_of_place.bus_bandwidth = 5;
  testing::internal::CaptureStdout();
  report.add(line);
  report.finish();
  return testing::internal::GetCapturedStdout();
}

TEST(Report, KeepsNoLinesOfCyclesThatNeverEnd) {
  PerfOptions options;
  const std::string average = "# Avg bus bandwidth    : ";
  EXPECT_NE(footer_after_a_line(options).find(average + "5"), std::string::npos);
  options.cycles = 0;
  EXPECT_NE(footer_after_a_line(options).find(average + "0"), std::string::npos);
}

}  // namespace
}  // namespace tutti::perf
