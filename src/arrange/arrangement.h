// How a training job lies on a cluster: which part of each kind of parallelism is on which level,
// and how the step is cut.
//
// Every axis has a degree, which is spread over the levels as factors: those of all axes multiply
// to the size of each level. So a level tells neither which of its children an axis takes nor in
// which order, since they are equal.
//
// Threads: values. Errors: none.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "src/arrange/cluster.h"

namespace tutti::arrange {

enum class Axis : uint8_t { kTensor, kContext, kExpert, kPipeline, kData };
inline constexpr size_t kAxes = 5;
/// "tensor"
const char* name_of(Axis axis);
/// "tp", as trainers call the axis of a mesh.
const char* short_name_of(Axis axis);

/// The factors of an axis, or of a group of ranks, by level; 1 beyond the cluster's levels.
struct Spread {
  std::array<uint32_t, topology::Topology::kMostLevels> at;

  Spread() { at.fill(1); }
  uint32_t degree() const;
  /// The ranks of the group in a node of this level that holds some.
  uint32_t within(size_t level) const;
  /// The outermost level with a factor above 1; 0 where there is none.
  size_t outermost() const;
  auto operator<=>(const Spread&) const = default;
};
/// The group of all ranks that differ on one of both axes.
Spread operator*(const Spread& one, const Spread& other);

struct Arrangement {
  std::array<Spread, kAxes> axes;
  uint32_t micro_batch = 1;        // sequences
  uint32_t micro_batches = 1;      // of a replica in a step
  uint32_t chunks = 1;             // of each stage's rank; more than 1: the pipeline is interleaved
  uint32_t zero = 0;               // stage: 1 optimizer, 2 gradients too, 3 weights too are divided
  bool recomputed = false;         // activations are computed again in the backward pass
  bool sequence_parallel = false;  // what tensor parallelism leaves whole is divided by tokens
  // Of TrainingJob::codecs, from 1 on: of the gradients on the wire, or of the outer exchange where
  // there is one; 0: none.
  uint32_t codec = 0;
  // Steps after which an outer optimizer exchanges the parameters of the outermost level's nodes,
  // which reduce their gradients alone meanwhile; 0: there is none.
  uint32_t outer_period = 0;

  const Spread& operator[](Axis axis) const { return axes[static_cast<size_t>(axis)]; }
  Spread& operator[](Axis axis) { return axes[static_cast<size_t>(axis)]; }
  uint32_t degree(Axis axis) const { return (*this)[axis].degree(); }
  /// Those that reduce the gradients of what is no expert.
  Spread gradient_group() const;
  /// Those that reduce the gradients of experts.
  Spread expert_gradient_group() const;
  auto operator<=>(const Arrangement&) const = default;
};

/// "tp 8 x pp 16 x dp 1024, micro-batch 1 x 2, zero 1, interleaved 5": axes of degree 1 are left
/// out.
std::string describe(const Arrangement& arrangement);
/// "tp 8 in host; pp 2 over data centre": the levels on which each axis lies.
std::string describe_levels(const Arrangement& arrangement, const EvenCluster& cluster);
/// The axes of a mesh over the cluster's places, the fastest first: an axis that lies on several
/// levels is one for each of them: "tp=8,dp.rack=16,dp.zone=128,pp=8".
std::string mesh_text(const Arrangement& arrangement, const EvenCluster& cluster);

}  // namespace tutti::arrange
