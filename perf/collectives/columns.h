// The columns of the table as data: the heading and the lines are printed from the same list.
#pragma once

#include <string>
#include <vector>

#include "perf/collectives/measure.h"

namespace tutti::perf {

/// A column of the left or the right half of the table: out of place, in place.
struct CellColumn {
  std::string name;
  std::string unit;
  int width;
  std::string (*text)(const Cell& cell);
};

/// nccl-tests' four columns, and those that were asked for.
std::vector<CellColumn> cell_columns(const ReportOptions& report);

/// The number with as many digits behind the point, at most `digits`, as fit the width.
std::string fitted(double number, int width, int digits);

/// Right-aligned, two blanks before it.
std::string padded(const std::string& text, int width);

}  // namespace tutti::perf
