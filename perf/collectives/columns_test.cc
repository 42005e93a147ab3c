#include "perf/collectives/columns.h"

#include <gtest/gtest.h>

#include "perf/collectives/report_json.h"
#include "perf/collectives/resident.h"

namespace tutti::perf {
namespace {

std::string names_of(const std::vector<CellColumn>& columns) {
  std::string names;
  for (const CellColumn& column : columns) names += column.name + " ";
  return names;
}

TEST(Columns, AreThoseOfNcclTestsUntilMoreIsAskedFor) {
  ReportOptions report;
  EXPECT_EQ(names_of(cell_columns(report)), "time algbw busbw #wrong ");
  report.predicted = true;
  EXPECT_EQ(names_of(cell_columns(report)), "time pred algbw busbw #wrong ");
  report.predicted = false;
  report.per_iteration = true;
  EXPECT_EQ(names_of(cell_columns(report)), "time algbw busbw #wrong i_min i_max i_p99 i_cv% ");
  report.percentiles = true;
  report.processor_time = true;
  EXPECT_EQ(names_of(cell_columns(report)),
            "cputime algbw busbw #wrong i_min i_max i_p99 i_cv% p50 p95 p99 max ");
}

TEST(Columns, NumbersFitTheirWidth) {
  EXPECT_EQ(fitted(0.1234, 7, 3), "0.123");
  EXPECT_EQ(fitted(1234.5678, 7, 3), "1234.57");
  EXPECT_EQ(fitted(12345678.9, 7, 3), "12345679") << "never cut, whatever the width";
  EXPECT_EQ(padded("7", 3), "    7");
  EXPECT_EQ(padded("12345", 3), "  12345");
}

TEST(Columns, UncheckedIsNotRight) {
  Cell cell;
  const CellColumn wrong = cell_columns({})[3];
  EXPECT_EQ(wrong.text(cell), "N/A");
  cell.checked = true;
  EXPECT_EQ(wrong.text(cell), "0");
  cell.wrong.emplace().wrong_elements = 12;
  EXPECT_EQ(wrong.text(cell), "12");
}

TEST(Resident, BytesAreWrittenWithTheirUnit) {
  EXPECT_EQ(byte_text(512), "512 B");
  EXPECT_EQ(byte_text(1536), "1.50 KB");
  EXPECT_EQ(byte_text(12.5 * 1024 * 1024), "12.5 MB");
  EXPECT_GT(resident_bytes(), 0);
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
