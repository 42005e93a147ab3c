#include "tutti/runtime/partial_softmax.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "src/runtime/halves.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

template <class Number>
void merge_row(std::span<Number> acc, Number& acc_lse, std::span<const Number> in, Number in_lse) {
  constexpr Number kNoKey = -std::numeric_limits<Number>::infinity();
  for (const Number lse : {acc_lse, in_lse}) {
    require(!std::isnan(lse) && lse != -kNoKey, "the lse of a row is ", static_cast<double>(lse),
            "; a row without keys has -infinity, and no finite score makes it +infinity");
  }
  // A kernel may have left anything in the output of a row without keys, 0/0 too.
  if (acc_lse == kNoKey) std::fill(acc.begin(), acc.end(), Number{0});
  if (in_lse == kNoKey) return;
  const Number most = std::max(acc_lse, in_lse);
  const Number a = std::exp(acc_lse - most), b = std::exp(in_lse - most);
  for (size_t i = 0; i < acc.size(); ++i) acc[i] = (a * acc[i] + b * in[i]) / (a + b);
  acc_lse = most + std::log(a + b);
}

template <class Number>
class MergeRows final : public Reduction {
 public:
  explicit MergeRows(int width) : width_(static_cast<size_t>(width)) {}

  void fold(void* target, const void* arrived, int64_t elements) const override {
    auto* to = static_cast<Number*>(target);
    const auto* from = static_cast<const Number*>(arrived);
    for (int64_t row = 0; row < elements; ++row, to += width_ + 1, from += width_ + 1) {
      merge_row<Number>({to, width_}, to[width_], {from, width_}, from[width_]);
    }
  }
  Bytes element() const override {
    return Bytes(static_cast<int64_t>((width_ + 1) * sizeof(Number)));
  }
  void clear(void* target, int64_t elements) const override {
    auto* to = static_cast<Number*>(target);
    for (int64_t row = 0; row < elements; ++row, to += width_ + 1) {
      std::fill_n(to, width_, Number{0});
      to[width_] = -std::numeric_limits<Number>::infinity();
    }
  }

 private:
  size_t width_;
};

/// Outputs of 16 bits; the lse, whose rounding would be one of all outputs, is a float.
class MergeRowsOfHalves final : public Reduction {
 public:
  MergeRowsOfHalves(tuttiDataType_t type, int width)
      : halves_(type), width_(static_cast<size_t>(width)) {}

  void fold(void* accumulators, const void* arrived, int64_t elements) const override {
    std::vector<float> row(width_);
    auto* to = static_cast<float*>(accumulators);
    const auto* from = static_cast<const std::byte*>(arrived);
    for (int64_t i = 0; i < elements; ++i, to += width_ + 1, from += element().value) {
      float lse = 0;
      std::memcpy(&lse, from + lse_at(), sizeof lse);
      halves_.read(from, row);
      merge_row<float>({to, width_}, to[width_], row, lse);
    }
  }
  void clear(void* accumulators, int64_t elements) const override {
    floats_.clear(accumulators, elements);
  }
  void round(void* target, const void* accumulators, int64_t elements) const override {
    auto* to = static_cast<std::byte*>(target);
    const auto* from = static_cast<const float*>(accumulators);
    for (int64_t i = 0; i < elements; ++i, to += element().value, from += width_ + 1) {
      halves_.write({from, width_}, to);
      std::memcpy(to + lse_at(), from + width_, sizeof(float));
    }
  }
  Bytes element() const override {
    return Halves::kBytes * static_cast<int64_t>(width_) + Bytes(sizeof(float));
  }
  Bytes accumulator() const override { return floats_.element(); }

 private:
  size_t lse_at() const { return width_ * Halves::kBytes.value; }

  Halves halves_;
  size_t width_;
  MergeRows<float> floats_{static_cast<int>(width_)};
};

}  // namespace

void merge_partials(std::span<double> acc_output, std::span<double> acc_lse,
                    std::span<const double> output, std::span<const double> lse) {
  require(acc_lse.size() == lse.size() && acc_output.size() == output.size() && !lse.empty() &&
              output.size() % lse.size() == 0,
          "partials of ", acc_lse.size(), " and ", lse.size(), " rows, ", acc_output.size(),
          " and ", output.size(), " outputs; both must have one shape");
  const size_t width = output.size() / lse.size();
  for (size_t row = 0; row < lse.size(); ++row) {
    merge_row<double>(acc_output.subspan(row * width, width), acc_lse[row],
                      output.subspan(row * width, width), lse[row]);
  }
}

std::unique_ptr<Reduction> merge_rows(tuttiDataType_t type, int width) {
  require(width >= 1, "a row has ", width, " outputs; give 1 or more");
  if (type == tuttiFloat32) return std::make_unique<MergeRows<float>>(width);
  if (type == tuttiFloat64) return std::make_unique<MergeRows<double>>(width);
  require(Halves::has(type), "type ", static_cast<int>(type),
          " has no merge; use tuttiFloat32, tuttiFloat64, tuttiBfloat16 or tuttiFloat16");
  require(width % 2 == 0, "a row has ", width,
          " outputs of 16 bits; give an even number, so that the lse behind them is aligned");
  return std::make_unique<MergeRowsOfHalves>(type, width);
}

}  // namespace tutti::runtime
