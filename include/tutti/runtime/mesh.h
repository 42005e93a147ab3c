// Groups of ranks that work together: rank sets as values, and meshes that name them.
//
// A mesh factors ranks 0 .. n-1 into named axes, the first axis fastest, as NCCL-based trainers
// write them: tp, cp, dp, pp. A second factorisation of the same ranks is a second mesh, made by
// fold() (MoE Parallel Folding, arXiv:2504.14960): attention and experts use different axes, and
// only the pipeline's groups must coincide.
//
// Units:   ranks and coordinates count from 0.
// Errors:  throws Error for sizes below 1, unknown or repeated axes, ranks outside of the mesh.
// Threads: values; any thread may read them.
#pragma once

#include <compare>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/runtime/error.h"

namespace tutti::runtime {

/// Distinct ranks in a fixed order: their places are the ranks of the group's communicator.
class TUTTI_RUNTIME_API RankSet {
 public:
  /// At least one rank, none negative, none twice.
  explicit RankSet(std::vector<int> ranks);
  static RankSet range(int first, int count);

  int size() const { return static_cast<int>(ranks_.size()); }
  std::span<const int> ranks() const { return ranks_; }
  int operator[](int place) const { return ranks_[static_cast<size_t>(place)]; }
  /// The place of a rank, -1 if it is not in the set.
  int place_of(int rank) const;
  /// "{0, 2, 4}"
  std::string text() const;

  auto operator<=>(const RankSet&) const = default;

 private:
  std::vector<int> ranks_;
};

struct MeshAxis {
  std::string name;
  int size = 1;
  bool operator==(const MeshAxis&) const = default;
};

class TUTTI_RUNTIME_API Mesh {
 public:
  /// rank = sum of coordinate * stride; the stride of an axis is the product of the sizes before
  /// it.
  explicit Mesh(std::vector<MeshAxis> axes);

  int ranks() const { return ranks_; }
  std::span<const MeshAxis> axes() const { return axes_; }
  int size_of(std::string_view axis) const;

  /// One coordinate for each axis, in the order of the axes.
  std::vector<int> coordinates_of(int rank) const;
  int rank_of(std::span<const int> coordinates) const;

  /// The ranks that agree with `rank` on all axes but these, in rank order.
  RankSet group(std::span<const std::string> axes, int rank) const;
  /// All groups of these axes, by their lowest rank: they partition the ranks.
  std::vector<RankSet> groups(std::span<const std::string> axes) const;

  /// Another factorisation of the same ranks. The groups of each axis named in `must_match` have to
  /// be the same in both, member for member.
  Mesh fold(std::vector<MeshAxis> axes, std::span<const std::string> must_match) const;

 private:
  size_t index_of(std::string_view axis) const;
  std::vector<bool> chosen(std::span<const std::string> axes) const;

  std::vector<MeshAxis> axes_;
  int ranks_ = 1;
};

}  // namespace tutti::runtime
