// The slow ones by the delays between every two ranks: a sender, a receiver, both sides of one host
// rank, or the path between two (C4D, arXiv 2406.04594).
//
// A row of the matrix is a sender, a column a receiver. The lower half of all cells says what is
// usual: up to half of them may be affected. A row whose median lies far above it is a slow sender,
// a column a slow receiver, a row and a column of one rank are that rank, and a single cell is the
// path. The rule by rows is C4D's; the lower half as the measure is ours, since in a group of four
// one bad rank touches half of all cells.
//
// Threads: values. Units: nanoseconds of like transfers; of unlike ones rows would differ for no
// fault. Errors: judge() gives nothing for fewer than three cells.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tutti::health {

/// The middle of the values; 0 of none.
double median(std::vector<double> values);
/// Median absolute deviation from their median.
double deviation(const std::vector<double>& values);

class DelayMatrix {
 public:
  explicit DelayMatrix(uint32_t ranks) : ranks_(ranks), samples_(size_t{ranks} * ranks) {}

  void add(uint32_t source, uint32_t target, double delay_ns) {
    samples_[cell(source, target)].push_back(delay_ns);
  }
  uint32_t ranks() const { return ranks_; }
  uint64_t samples() const;
  /// The median of the samples; none where there are none.
  std::optional<double> delay(uint32_t source, uint32_t target) const;

 private:
  size_t cell(uint32_t source, uint32_t target) const { return size_t{source} * ranks_ + target; }

  uint32_t ranks_;
  std::vector<std::vector<double>> samples_;
};

enum class SlowPart : uint8_t { kSender, kReceiver, kRank, kPath };

struct SlowVerdict {
  SlowPart part = SlowPart::kPath;
  uint32_t source = 0;  // or the rank
  uint32_t target = 0;  // of a path or receiver
  double times = 1;     // as slow as usual
  double score = 0;     // deviations above usual
};

struct MatrixRule {
  double score = 5;       // of a row or column; C4D's z
  double cell_score = 8;  // one cell is the largest of many
  double times = 1.5;     // nothing faster is called slow
  double floor = 0.02;    // of the usual delay: less deviation is taken for as much
};

/// Nothing where all is as usual.
std::optional<SlowVerdict> judge(const DelayMatrix& matrix, const MatrixRule& rule = {});

}  // namespace tutti::health
