#include "src/health/delay_matrix.h"

#include <algorithm>
#include <cmath>

namespace tutti::health {
namespace {

/// The usual delay, and how far values lie from it when nothing is wrong.
struct Usual {
  double delay = 0;
  double spread = 0;
  double score(double value) const { return (value - delay) / spread; }
};

Usual usual_of(std::vector<double> cells, double floor) {
  std::sort(cells.begin(), cells.end());
  cells.resize((cells.size() + 1) / 2);
  Usual usual;
  usual.delay = median(cells);
  // Half of a distribution lies about half as far from its own middle.
  usual.spread = std::max({2 * deviation(cells), floor * usual.delay, 1e-9});
  return usual;
}

// The row or column that stands out most.
struct MatrixLine {
  uint32_t rank = 0;
  double median = 0;
  double score = -1e300;
};

MatrixLine worst_line(const DelayMatrix& matrix, bool is_row, const Usual& usual) {
  MatrixLine worst;
  for (uint32_t rank = 0; rank < matrix.ranks(); ++rank) {
    std::vector<double> cells;
    for (uint32_t other = 0; other < matrix.ranks(); ++other) {
      if (other == rank) continue;
      const auto delay = is_row ? matrix.delay(rank, other) : matrix.delay(other, rank);
      if (delay) cells.push_back(*delay);
    }
    if (cells.size() < 2) continue;  // one cell is a path
    const double middle = median(cells);
    if (usual.score(middle) > worst.score) worst = {rank, middle, usual.score(middle)};
  }
  return worst;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double deviation(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::fabs(value - middle));
  return median(std::move(distances));
}

uint64_t DelayMatrix::samples() const {
  uint64_t all = 0;
  for (const std::vector<double>& cell : samples_) all += cell.size();
  return all;
}

std::optional<double> DelayMatrix::delay(uint32_t source, uint32_t target) const {
  const std::vector<double>& values = samples_[cell(source, target)];
  if (values.empty()) return std::nullopt;
  return median(values);
}

std::optional<SlowVerdict> judge(const DelayMatrix& matrix, const MatrixRule& rule) {
  std::vector<double> cells;
  SlowVerdict cell;
  double slowest = 0;
  for (uint32_t source = 0; source < matrix.ranks(); ++source) {
    for (uint32_t target = 0; target < matrix.ranks(); ++target) {
      const auto delay = matrix.delay(source, target);
      if (!delay) continue;
      cells.push_back(*delay);
      if (*delay > slowest) {
        slowest = *delay;
        cell.source = source;
        cell.target = target;
      }
    }
  }
  if (cells.size() < 3) return std::nullopt;
  const Usual usual = usual_of(cells, rule.floor);
  const MatrixLine row = worst_line(matrix, true, usual), column = worst_line(matrix, false, usual);
  const auto stands_out = [&](const MatrixLine& line) {
    return line.score > rule.score && line.median > rule.times * usual.delay;
  };
  const bool by_row = stands_out(row), by_column = stands_out(column);
  if (by_row && by_column && row.rank == column.rank) {
    return SlowVerdict{SlowPart::kRank, row.rank, row.rank, row.median / usual.delay, row.score};
  }
  if (by_row && (!by_column || row.score >= column.score)) {
    return SlowVerdict{SlowPart::kSender, row.rank, row.rank, row.median / usual.delay, row.score};
  }
  if (by_column) {
    return SlowVerdict{SlowPart::kReceiver, column.rank, column.rank, column.median / usual.delay,
                       column.score};
  }
  cell.times = slowest / usual.delay;
  cell.score = usual.score(slowest);
  if (cell.score > rule.cell_score && cell.times > rule.times) return cell;
  return std::nullopt;
}

}  // namespace tutti::health
