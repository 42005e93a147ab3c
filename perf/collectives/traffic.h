// The number of elements from each rank to each in a call with uneven blocks. Those of an
// all_to_all_v can be chosen, by the variables NCCL_TESTS_ALLTOALLV_* of nccl-tests.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::perf {

/// Uneven traffic: of `total` elements, the block of weight 0 to ranks - 1, proportional to it. In
/// an all_to_all_v the weight is by how much the numbers of two ranks differ (to the larger one,
/// round the end), as in nccl-tests; in others it is the number of the block's rank.
size_t uneven_block(size_t total, int weight, int ranks);

/// Bytes from every rank, a row, to every rank, a column.
struct TrafficMatrix {
  int ranks = 0;
  std::vector<size_t> bytes;

  size_t at(int from, int to) const {
    return bytes[static_cast<size_t>(from) * static_cast<size_t>(ranks) + static_cast<size_t>(to)];
  }
};

/// Rows of as many numbers as there are rows, each multiplied by `scale`. `name` is what a mistake
/// is said of.
/// Errors: PerfError.
TrafficMatrix parse_traffic_matrix(const std::string& text, double scale, const std::string& name);

/// The blocks of an all_to_all_v. Cheap to copy.
class Traffic {
 public:
  /// `spread` 1: proportional to the distance of two ranks, as uneven_block(); 0: all blocks are
  /// equal; between them, in proportion.
  Traffic() = default;
  explicit Traffic(double spread) : spread_(spread) {}
  /// Exactly this between the first ranks of the matrix, whatever size is asked for.
  explicit Traffic(TrafficMatrix matrix)
      : matrix_(std::make_shared<const TrafficMatrix>(std::move(matrix))) {}

  double spread() const { return spread_; }
  const TrafficMatrix* matrix() const { return matrix_.get(); }
  /// The same, counted in elements of so many bytes.
  Traffic of_elements(size_t bytes) const;

  /// From rank to rank, where a rank's buffer should have `total` elements.
  size_t between(size_t total, int from, int to, int ranks) const;
  /// The largest buffer of any rank, in elements.
  size_t largest(size_t total, int ranks) const;
  /// The size that a sweep takes in place of the one that was asked for.
  size_t settled(size_t total, int ranks) const { return matrix_ ? largest(total, ranks) : total; }

 private:
  double spread_ = 1;
  std::shared_ptr<const TrafficMatrix> matrix_;
  size_t element_bytes_ = 1;
};

/// By NCCL_TESTS_ALLTOALLV_MATRIX_FILE and _MATRIX_SCALE, or _SPREAD.
/// Errors: PerfError.
Traffic traffic_asked_for();
/// NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY.
bool traffic_summary_asked_for();

}  // namespace tutti::perf
