#include "perf/collectives/columns.h"

#include <cstdio>

namespace tutti::perf {
namespace {

constexpr int kTimeWidth = 7;
constexpr int kRateWidth = 6;

std::string time_text(double us) { return fitted(us, kTimeWidth, 3); }

std::string wrong_text(const Cell& cell) {
  return cell.checked ? std::to_string(cell.wrong_elements()) : "N/A";
}

/// Of calls that NCCL has not.
std::string beside(const Cell& cell, double number) {
  return cell.nccl_us > 0 ? time_text(number) : "N/A";
}

}  // namespace

std::string fitted(double number, int width, int digits) {
  char text[64];
  do {
    std::snprintf(text, sizeof text, "%.*f", digits, number);
  } while (static_cast<int>(std::string_view(text).size()) > width && digits-- > 0);
  return text;
}

std::string padded(const std::string& text, int width) {
  const auto room = static_cast<size_t>(width);
  const size_t blanks = text.size() < room ? room - text.size() : 0;
  return "  " + std::string(blanks, ' ') + text;
}

std::vector<CellColumn> cell_columns(const ReportOptions& report) {
  std::vector<CellColumn> columns;
  if (report.processor_time) {
    columns.push_back({"cputime", "(us)", kTimeWidth,
                       [](const Cell& cell) { return time_text(cell.queued_us); }});
  } else {
    columns.push_back(
        {"time", "(us)", kTimeWidth, [](const Cell& cell) { return time_text(cell.us); }});
  }
  if (report.device_time) {
    columns.push_back({"devtime", "(us)", kTimeWidth,
                       [](const Cell& cell) { return time_text(cell.device_us); }});
  }
  if (report.predicted) {
    columns.push_back({"pred", "(us)", kTimeWidth,
                       [](const Cell& cell) { return time_text(cell.predicted_us); }});
  }
  columns.push_back({"algbw", "(GB/s)", kRateWidth, [](const Cell& cell) {
                       return fitted(cell.algorithm_bandwidth, kRateWidth, 2);
                     }});
  columns.push_back({"busbw", "(GB/s)", kRateWidth,
                     [](const Cell& cell) { return fitted(cell.bus_bandwidth, kRateWidth, 2); }});
  columns.push_back({"#wrong", "", kRateWidth, wrong_text});
  if (report.beside_nccl) {
    columns.push_back(
        {"nccl", "(us)", kTimeWidth, [](const Cell& cell) { return beside(cell, cell.nccl_us); }});
    columns.push_back({"by", "(tutti)", kTimeWidth,
                       [](const Cell& cell) { return beside(cell, cell.nccl_ratio); }});
  }
  const auto add_time = [&](const char* name, std::string (*text)(const Cell&)) {
    columns.push_back({name, "(us)", kTimeWidth, text});
  };
  if (report.per_iteration) {
    add_time("i_min", [](const Cell& cell) { return time_text(cell.times->kept.least); });
    add_time("i_max", [](const Cell& cell) { return time_text(cell.times->kept.greatest); });
    add_time("i_p99", [](const Cell& cell) { return time_text(cell.times->kept.p99); });
    columns.push_back({"i_cv%", "(%)", kTimeWidth, [](const Cell& cell) {
                         return fitted(cell.times->kept.deviation_percent(), kTimeWidth, 2);
                       }});
  }
  if (report.percentiles) {
    add_time("p50", [](const Cell& cell) { return time_text(cell.times->all.p50); });
    add_time("p95", [](const Cell& cell) { return time_text(cell.times->all.p95); });
    add_time("p99", [](const Cell& cell) { return time_text(cell.times->all.p99); });
    add_time("max", [](const Cell& cell) { return time_text(cell.times->all.greatest); });
  }
  return columns;
}

}  // namespace tutti::perf
