#include <cstdio>
#include <string_view>

#include "perf/collectives/report.h"

namespace tutti::perf {
namespace {

constexpr int kTimeWidth = 7;
constexpr int kRateWidth = 6;

using Report = const ReportOptions&;
using Number = std::optional<double>;

/// Of a call that NCCL has.
Number beside(const Cell& cell, double number) {
  return cell.nccl_us > 0 ? Number(number) : std::nullopt;
}

constexpr CellField time_field(const char* heading, const char* name, bool (*is_shown)(Report),
                               Number (*value)(const Cell&)) {
  return {heading, "(us)", kTimeWidth, 3, name, is_shown, value};
}

bool always(Report) { return true; }
bool by_iteration(Report report) { return report.per_iteration; }
bool by_percentiles(Report report) { return report.percentiles; }
bool beside_nccl(Report report) { return report.beside_nccl; }

constexpr CellField kFields[] = {
    time_field(
        "time", "time", [](Report report) { return !report.processor_time; },
        [](const Cell& cell) { return Number(cell.us); }),
    time_field(
        "cputime", "cpu_time", [](Report report) { return report.processor_time; },
        [](const Cell& cell) { return Number(cell.queued_us); }),
    time_field(
        "devtime", "device_time", [](Report report) { return report.device_time; },
        [](const Cell& cell) { return Number(cell.device_us); }),
    time_field(
        "pred", "predicted", [](Report report) { return report.predicted; },
        [](const Cell& cell) { return Number(cell.predicted_us); }),
    {"algbw", "(GB/s)", kRateWidth, 2, "alg_bw", always,
     [](const Cell& cell) { return Number(cell.algorithm_bandwidth); }},
    {"busbw", "(GB/s)", kRateWidth, 2, "bus_bw", always,
     [](const Cell& cell) { return Number(cell.bus_bandwidth); }},
    {"#wrong", "", kRateWidth, 0, "nwrong", always,
     [](const Cell& cell) {
       return cell.checked ? Number(static_cast<double>(cell.wrong_elements())) : std::nullopt;
     }},
    time_field("nccl", "nccl_time", beside_nccl,
               [](const Cell& cell) { return beside(cell, cell.nccl_us); }),
    {"by", "(tutti)", kTimeWidth, 3, "nccl_ratio", beside_nccl,
     [](const Cell& cell) { return beside(cell, cell.nccl_ratio); }},
    time_field("i_min", "", by_iteration,
               [](const Cell& cell) { return Number(cell.times->kept.least); }),
    time_field("i_max", "", by_iteration,
               [](const Cell& cell) { return Number(cell.times->kept.greatest); }),
    time_field("i_p99", "", by_iteration,
               [](const Cell& cell) { return Number(cell.times->kept.p99); }),
    {"i_cv%", "(%)", kTimeWidth, 2, "", by_iteration,
     [](const Cell& cell) { return Number(cell.times->kept.deviation_percent()); }},
    time_field("p50", "", by_percentiles,
               [](const Cell& cell) { return Number(cell.times->all.p50); }),
    time_field("p95", "", by_percentiles,
               [](const Cell& cell) { return Number(cell.times->all.p95); }),
    time_field("p99", "", by_percentiles,
               [](const Cell& cell) { return Number(cell.times->all.p99); }),
    time_field("max", "", by_percentiles,
               [](const Cell& cell) { return Number(cell.times->all.greatest); }),
};

}  // namespace

std::vector<CellField> cell_fields(const ReportOptions& report) {
  std::vector<CellField> fields;
  for (const CellField& field : kFields) {
    if (field.is_shown(report)) fields.push_back(field);
  }
  return fields;
}

std::string CellField::text(const std::optional<Cell>& cell) const {
  const Number number = cell ? value(*cell) : std::nullopt;
  return number ? fitted(*number, width, digits) : "N/A";
}

std::string fitted(double number, int width, int digits) {
  char text[64];
  do {
    std::snprintf(text, sizeof text, "%.*f", digits, number);
  } while (static_cast<int>(std::string_view(text).size()) > width && digits-- > 0);
  return text;
}

}  // namespace tutti::perf
