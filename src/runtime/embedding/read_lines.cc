// How many lines a device reads that gathers rows with groups of 32 lanes.
#include <algorithm>
#include <numeric>
#include <vector>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/row_gather.h"

namespace tutti::runtime {
namespace {

constexpr int64_t kLine = 128;
constexpr int64_t kLane = 4;
constexpr int64_t kGroup = 32 * kLane;  // bytes of the output that one group of lanes fills

/// A run of lines, both ends included.
struct LineRun {
  int64_t first = 0;
  int64_t last = 0;
};

/// The lines of the bytes begin .. end of memory.
LineRun run_of(int64_t begin, int64_t end) { return {begin / kLine, (end - 1) / kLine}; }

/// A row at an address that is read for the output's bytes from `target` on.
struct RowRead {
  int64_t source = 0;
  int64_t target = 0;
  int64_t row = 0;

  /// Adds the lines read for the row's bytes begin .. end of the output.
  void add(int64_t begin, int64_t end, bool rotated, std::vector<LineRun>& runs) const {
    // As a device computes it: the remainder has the sign of the difference.
    const int64_t shift = rotated ? ((target - source) % kLine + row) % row : 0;
    const int64_t from = begin + shift, to = end + shift;
    if (from < row) runs.push_back(run_of(source + from, source + std::min(to, row)));
    if (to > row) runs.push_back(run_of(source + std::max(from, row) - row, source + to - row));
  }
};

int64_t distinct_lines(std::vector<LineRun>& runs) {
  std::sort(runs.begin(), runs.end(),
            [](const LineRun& a, const LineRun& b) { return a.first < b.first; });
  int64_t lines = 0, next = -1;
  for (const LineRun& run : runs) {
    const int64_t first = std::max(run.first, next);
    if (run.last >= first) {
      lines += run.last - first + 1;
      next = run.last + 1;
    }
  }
  return lines;
}

void check_row(Bytes row) {
  constexpr int64_t kMost = int64_t{1} << 24;
  require(row.value >= kLane && row.value % kLane == 0 && row.value <= kMost, "a row has ",
          row.value, " bytes; give a multiple of 4, at most 2^24");
}

/// Lines of one row, whose groups' other rows lie elsewhere.
int64_t lines_of_row(const RowRead& read, bool rotated) {
  int64_t lines = 0;
  std::vector<LineRun> runs;
  for (int64_t begin = 0; begin < read.row;) {
    const int64_t end = std::min(read.row, begin + kGroup - (read.target + begin) % kGroup);
    runs.clear();
    read.add(begin, end, rotated, runs);
    lines += distinct_lines(runs);
    begin = end;
  }
  return lines;
}

int64_t counted_lines(int64_t row, std::span<const int64_t> ids, bool rotated) {
  int64_t lines = 0;
  std::vector<LineRun> runs;
  const int64_t all = row * std::ssize(ids);
  for (int64_t group = 0; group < all; group += kGroup) {
    runs.clear();
    const int64_t end = std::min(all, group + kGroup);
    for (int64_t at_byte = group; at_byte < end;) {
      const int64_t r = at_byte / row;
      const int64_t stop = std::min(end, (r + 1) * row);
      RowRead{ids[at(r)] * row, r * row, row}.add(at_byte - r * row, stop - r * row, rotated, runs);
      at_byte = stop;
    }
    lines += distinct_lines(runs);
  }
  return lines;
}

}  // namespace

ReadLines lines_of_reads(Bytes row) {
  check_row(row);
  // Rows begin at multiples of this in a line, in the table and in the output alike.
  const int64_t phase = std::gcd(row.value, kLine), phases = kLine / phase;
  ReadLines lines;
  for (int64_t target = 0; target < kLine; target += phase) {
    for (int64_t source = 0; source < kLine; source += phase) {
      // The table is larger than the output, so that nearly all of its rows lie further on.
      const RowRead read{source + kLine, target, row.value};
      lines.plain += static_cast<double>(lines_of_row(read, false));
      lines.rotated += static_cast<double>(lines_of_row(read, true));
    }
  }
  const auto cases = static_cast<double>(phases * phases);
  return {lines.plain / cases, lines.rotated / cases};
}

ReadLines lines_of_reads(Bytes row, std::span<const int64_t> ids) {
  check_row(row);
  require(!ids.empty(), "there are no rows to count lines of; give one or more");
  for (const int64_t id : ids) {
    require(id >= 0, "row ", id, " is asked for; rows count from 0");
    checked_product(id + 1, row.value, "the place of a row");
  }
  const auto rows = static_cast<double>(ids.size());
  return {static_cast<double>(counted_lines(row.value, ids, false)) / rows,
          static_cast<double>(counted_lines(row.value, ids, true)) / rows};
}

}  // namespace tutti::runtime
