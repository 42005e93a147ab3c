// The exact update of rows by gradients that arrive in any order (ZionEX, arXiv:2104.05158): equal
// gradients give equal bits.
//
// Gradients are sorted by row and then by sample, those of one row are added in that order, and the
// optimizer makes one step for each row. Steps for each gradient on their own would depend on their
// order: Adagrad's state of the first one scales the second.
//
// Where rows lie is a RowStore: memory, or a cache before something slower.
//
// Units:   values are fp32; a stored row is its values and then the optimizer's state of the row.
// Owns:    MemoryRows and CachedRows own their rows; everything else is the caller's.
// Errors:  throws Error; what is refused changes no row.
// Threads: one at a time for each store.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "tutti/runtime/error.h"

namespace tutti::runtime {

/// One step for one row.
class TUTTI_RUNTIME_API RowOptimizer {
 public:
  virtual ~RowOptimizer() = default;
  /// Values of state that are kept with each row, zeros at first.
  virtual int64_t state_of_row() const = 0;
  virtual void step(std::span<float> row, std::span<float> state,
                    std::span<const float> gradient) const = 0;
};
/// row -= rate * gradient.
TUTTI_RUNTIME_API std::unique_ptr<RowOptimizer> row_sgd(float rate);
/// state += mean(gradient^2); row -= rate * gradient / (sqrt(state) + epsilon).
TUTTI_RUNTIME_API std::unique_ptr<RowOptimizer> rowwise_adagrad(float rate, float epsilon = 1e-8F);

/// Where rows of `stride` values lie. Rows of a call are ascending and distinct.
class TUTTI_RUNTIME_API RowStore {
 public:
  virtual ~RowStore() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t stride() const = 0;
  /// Copies the rows one after the other: rows.size() * stride values.
  virtual void read(std::span<const int64_t> rows, float* values) = 0;
  virtual void write(std::span<const int64_t> rows, const float* values) = 0;
};

class TUTTI_RUNTIME_API MemoryRows : public RowStore {
 public:
  /// Zeros at first.
  MemoryRows(int64_t rows, int64_t stride);
  int64_t rows() const override { return rows_; }
  int64_t stride() const override { return stride_; }
  void read(std::span<const int64_t> rows, float* values) override;
  void write(std::span<const int64_t> rows, const float* values) override;

 private:
  int64_t rows_;
  int64_t stride_;
  std::vector<float> values_;
};

struct RowCacheCounters {
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t written_back = 0;  // rows that had changed and left, or were flushed
};

/// The rows that were used last, before a store that is slower. Rows that have changed are written
/// when they leave and by flush(), all those of a call together.
class TUTTI_RUNTIME_API CachedRows : public RowStore {
 public:
  /// Has room for `capacity` rows; `behind` is kept.
  CachedRows(std::shared_ptr<RowStore> behind, int64_t capacity);
  int64_t rows() const override;
  int64_t stride() const override;
  void read(std::span<const int64_t> rows, float* values) override;
  void write(std::span<const int64_t> rows, const float* values) override;
  /// Afterwards the store behind has all changes.
  void flush();
  const RowCacheCounters& counters() const { return counters_; }

 private:
  struct Line {
    int64_t row = 0;
    bool changed = false;
    std::vector<float> values;
  };
  using Lines = std::list<Line>;
  Line& touch(int64_t row, const float* values);
  void shrink();
  void write_back(std::vector<const Line*> lines);

  std::shared_ptr<RowStore> behind_;
  int64_t capacity_;
  Lines lines_;  // the last used first
  std::unordered_map<int64_t, Lines::iterator> by_row_;
  RowCacheCounters counters_;
};

struct RowGradient {
  int64_t row = 0;
  int64_t sample = 0;             // its number among those of all ranks
  const float* values = nullptr;  // of all columns
};

/// Changes each row of the gradients once. The store's rows have as many values as gradients have
/// columns, and the optimizer's state. Gradients of one row and sample are added in the order of
/// their bits.
TUTTI_RUNTIME_API void apply_exact(std::span<const RowGradient> gradients, int64_t columns,
                                   const RowOptimizer& optimizer, RowStore& store);

}  // namespace tutti::runtime
