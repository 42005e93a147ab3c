#include "tutti/runtime/sparse_update.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

void check_rate(float rate) {
  require(std::isfinite(rate) && rate > 0, "the learning rate is ", static_cast<double>(rate),
          "; give a number above 0");
}

class RowSgd : public RowOptimizer {
 public:
  explicit RowSgd(float rate) : rate_(rate) { check_rate(rate); }
  int64_t state_of_row() const override { return 0; }
  void step(std::span<float> row, std::span<float> /*state*/,
            std::span<const float> gradient) const override {
    for (size_t c = 0; c < row.size(); ++c) row[c] -= rate_ * gradient[c];
  }

 private:
  float rate_;
};

class RowwiseAdagrad : public RowOptimizer {
 public:
  RowwiseAdagrad(float rate, float epsilon) : rate_(rate), epsilon_(epsilon) {
    check_rate(rate);
    require(std::isfinite(epsilon) && epsilon > 0, "epsilon is ", static_cast<double>(epsilon),
            "; give a number above 0");
  }
  int64_t state_of_row() const override { return 1; }
  void step(std::span<float> row, std::span<float> state,
            std::span<const float> gradient) const override {
    float squares = 0;
    for (const float value : gradient) squares += value * value;
    state[0] += squares / static_cast<float>(gradient.size());
    const float scale = std::sqrt(state[0]) + epsilon_;
    for (size_t c = 0; c < row.size(); ++c) row[c] -= rate_ * gradient[c] / scale;
  }

 private:
  float rate_;
  float epsilon_;
};

void check_rows(std::span<const int64_t> rows, int64_t all) {
  for (size_t i = 0; i < rows.size(); ++i) {
    require(rows[i] >= 0 && rows[i] < all, "row ", rows[i], " of ", all, " is asked for");
    require(i == 0 || rows[i - 1] < rows[i], "row ", rows[i], " comes behind row ",
            i == 0 ? 0 : rows[i - 1], "; pass rows once, in ascending order");
  }
}

}  // namespace

std::unique_ptr<RowOptimizer> row_sgd(float rate) { return std::make_unique<RowSgd>(rate); }
std::unique_ptr<RowOptimizer> rowwise_adagrad(float rate, float epsilon) {
  return std::make_unique<RowwiseAdagrad>(rate, epsilon);
}

MemoryRows::MemoryRows(int64_t rows, int64_t stride) : rows_(rows), stride_(stride) {
  require(rows >= 1 && stride >= 1, rows, " rows of ", stride, " values; give 1 or more of each");
  values_.resize(at(checked_product(rows, stride, "the values of a table")));
}

void MemoryRows::read(std::span<const int64_t> rows, float* values) {
  check_rows(rows, rows_);
  for (const int64_t row : rows) {
    values = std::copy_n(values_.data() + row * stride_, stride_, values);
  }
}

void MemoryRows::write(std::span<const int64_t> rows, const float* values) {
  check_rows(rows, rows_);
  for (const int64_t row : rows) {
    std::copy_n(values, stride_, values_.data() + row * stride_);
    values += stride_;
  }
}

CachedRows::CachedRows(std::shared_ptr<RowStore> behind, int64_t capacity)
    : behind_(std::move(behind)), capacity_(capacity) {
  require(behind_ != nullptr && capacity >= 1, "a cache of ", capacity,
          " rows needs a store behind it and room for 1 row or more");
}

int64_t CachedRows::rows() const { return behind_->rows(); }
int64_t CachedRows::stride() const { return behind_->stride(); }

/// Makes the row the one that was used last, with these values where there are some.
CachedRows::Line& CachedRows::touch(int64_t row, const float* values) {
  const auto found = by_row_.find(row);
  if (found != by_row_.end()) {
    lines_.splice(lines_.begin(), lines_, found->second);
  } else {
    lines_.push_front({row, false, std::vector<float>(at(stride()))});
    by_row_[row] = lines_.begin();
  }
  if (values != nullptr) std::copy_n(values, stride(), lines_.front().values.data());
  return lines_.front();
}

void CachedRows::read(std::span<const int64_t> rows, float* values) {
  check_rows(rows, behind_->rows());
  std::vector<int64_t> missing;
  for (const int64_t row : rows) {
    if (!by_row_.contains(row)) missing.push_back(row);
  }
  counters_.misses += std::ssize(missing);
  counters_.hits += std::ssize(rows) - std::ssize(missing);
  std::vector<float> fetched(missing.size() * at(stride()));
  if (!missing.empty()) behind_->read(missing, fetched.data());
  for (size_t i = 0; i < missing.size(); ++i) touch(missing[i], &fetched[i * at(stride())]);
  for (const int64_t row : rows) {
    values = std::copy_n(touch(row, nullptr).values.data(), stride(), values);
  }
  shrink();
}

void CachedRows::write(std::span<const int64_t> rows, const float* values) {
  check_rows(rows, behind_->rows());
  for (size_t i = 0; i < rows.size(); ++i) {
    touch(rows[i], values + static_cast<int64_t>(i) * stride()).changed = true;
  }
  shrink();
}

void CachedRows::shrink() {
  std::vector<const Line*> leaving;
  const int64_t surplus = std::ssize(lines_) - capacity_;
  auto last = lines_.end();
  for (int64_t i = 0; i < surplus; ++i) {
    --last;
    if (last->changed) leaving.push_back(&*last);
  }
  write_back(std::move(leaving));
  for (int64_t i = 0; i < surplus; ++i) {
    by_row_.erase(lines_.back().row);
    lines_.pop_back();
  }
}

void CachedRows::flush() {
  std::vector<const Line*> changed;
  for (const Line& line : lines_) {
    if (line.changed) changed.push_back(&line);
  }
  write_back(std::move(changed));
  for (Line& line : lines_) line.changed = false;
}

void CachedRows::write_back(std::vector<const Line*> lines) {
  if (lines.empty()) return;
  std::sort(lines.begin(), lines.end(), [](auto* a, auto* b) { return a->row < b->row; });
  std::vector<int64_t> rows;
  std::vector<float> values;
  for (const Line* line : lines) {
    rows.push_back(line->row);
    values.insert(values.end(), line->values.begin(), line->values.end());
  }
  behind_->write(rows, values.data());
  counters_.written_back += std::ssize(rows);
}

void apply_exact(std::span<const RowGradient> gradients, int64_t columns,
                 const RowOptimizer& optimizer, RowStore& store) {
  require(columns >= 1, "gradients have ", columns, " columns; give 1 or more");
  const int64_t stride = columns + optimizer.state_of_row();
  require(store.stride() == stride, "the store's rows have ", store.stride(), " values, and ",
          columns, " columns with this optimizer's state have ", stride);
  std::vector<RowGradient> sorted(gradients.begin(), gradients.end());
  for (const RowGradient& gradient : sorted) {
    require(gradient.values != nullptr, "the gradient of row ", gradient.row, " has no values");
  }
  std::sort(sorted.begin(), sorted.end(), [&](const RowGradient& a, const RowGradient& b) {
    if (a.row != b.row) return a.row < b.row;
    if (a.sample != b.sample) return a.sample < b.sample;
    return a.values != b.values && std::memcmp(a.values, b.values, at(columns) * sizeof(float)) < 0;
  });
  std::vector<int64_t> rows;
  for (const RowGradient& gradient : sorted) {
    if (rows.empty() || rows.back() != gradient.row) rows.push_back(gradient.row);
  }
  if (rows.empty()) return;
  std::vector<float> values(rows.size() * at(stride)), sum(at(columns));
  store.read(rows, values.data());
  size_t next = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::fill(sum.begin(), sum.end(), 0.0F);
    for (; next < sorted.size() && sorted[next].row == rows[i]; ++next) {
      for (size_t c = 0; c < sum.size(); ++c) sum[c] += sorted[next].values[c];
    }
    const std::span<float> row = std::span(values).subspan(i * at(stride), at(stride));
    optimizer.step(row.first(at(columns)), row.subspan(at(columns)), sum);
  }
  store.write(rows, values.data());
}

}  // namespace tutti::runtime
