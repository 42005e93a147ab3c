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

std::string names_of(const std::vector<CellField>& fields) {
  std::string names;
  for (const CellField& field : fields) names += field.heading + std::string(" ");
  return names;
}

TEST(Fields, AreThoseOfNcclTestsUntilMoreIsAskedFor) {
  ReportOptions report;
  EXPECT_EQ(names_of(cell_fields(report)), "time algbw busbw #wrong ");
  report.predicted = true;
  EXPECT_EQ(names_of(cell_fields(report)), "time pred algbw busbw #wrong ");
  report.predicted = false;
  report.per_iteration = true;
  EXPECT_EQ(names_of(cell_fields(report)), "time algbw busbw #wrong i_min i_max i_p99 i_cv% ");
  report.percentiles = true;
  report.processor_time = true;
  EXPECT_EQ(names_of(cell_fields(report)),
            "cputime algbw busbw #wrong i_min i_max i_p99 i_cv% p50 p95 p99 max ");
}

TEST(Fields, NumbersFitTheirWidth) {
  EXPECT_EQ(fitted(0.1234, 7, 3), "0.123");
  EXPECT_EQ(fitted(1234.5678, 7, 3), "1234.57");
  EXPECT_EQ(fitted(12345678.9, 7, 3), "12345679") << "never cut, whatever the width";
}

TEST(Fields, UncheckedIsNotRight) {
  Cell cell;
  const CellField wrong = cell_fields({})[3];
  EXPECT_EQ(wrong.text(cell), "N/A");
  cell.checked = true;
  EXPECT_EQ(wrong.text(cell), "0");
  cell.wrong.emplace().wrong_elements = 12;
  EXPECT_EQ(wrong.text(cell), "12");
}

TEST(Report, BytesAreWrittenWithTheirUnit) {
  EXPECT_EQ(byte_text(512), "512 B");
  EXPECT_EQ(byte_text(1536), "1.50 KB");
  EXPECT_EQ(byte_text(12.5 * 1024 * 1024), "12.5 MB");
}

TEST(ReportJson, SecretsStayInTheEnvironment) {
  EXPECT_TRUE(may_be_told("TUTTI_TIMEOUT=1"));
  EXPECT_TRUE(may_be_told("NCCL_TESTS_MIN_BW=3"));
  for (const char* variable : {"TUTTI_ID=00ff", "NCCL_COMM_ID=h:1", "TUTTI_KEY_FILE=/k",
                               "TUTTI_KEY=00", "PATH=/bin", "AWS_SECRET=x"}) {
    EXPECT_FALSE(may_be_told(variable)) << variable;
  }
}

}  // namespace
}  // namespace tutti::perf
