// Narrow layers send less: experts at a fraction of the width (BigMac, DCCA), and tensor
// parallelism at the bottleneck of low-rank layers (BOOST). Models implement the layers; this
// header has their part of communication: volumes, possible widths, and all_reduces that run
// together.
//
// Exact: the volumes of both papers, reproduced by tests. Statistics beside activations are a
// second call of the same group (all_reduce_together), or part of one call (FusedSum).
//
// Units:   elements, bytes of bfloat16 (2) in the volumes; fractions as numerator and denominator.
// Errors:  throws Error and says which number to change.
// Threads: pure functions; all_reduce_together() as its communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/error.h"
#include "tutti/runtime/units.h"

namespace tutti::runtime {

/// width * numerator / denominator: whole, a multiple of `align`, above 0 and at most the width.
TUTTI_RUNTIME_API int64_t narrow_width(int64_t width, int64_t numerator, int64_t denominator,
                                       int64_t align);

struct MoeVolume {
  int64_t sequences = 1;
  int64_t length = 1;
  int64_t layers = 1;
  int64_t hidden = 1;  // the model's width, or the narrow one
  int64_t k = 1;
  int64_t ranks = 1;  // of ep
};
/// The bytes that all ranks send in one step, forward and backward, if routing is uniform:
/// 8 b s l h k (ep - 1) / ep, in the order of the fields; where ep does not divide, rounded down.
TUTTI_RUNTIME_API Bytes dispatch_volume(const MoeVolume& moe);

struct LowRankShape {
  int64_t batch = 1;
  int64_t length = 1;
  int64_t hidden = 1;
  int64_t feed_forward = 1;
  int64_t rank = 1;  // of the bottleneck
};
/// The bytes that the forward pass of one block all-reduces: with full-rank layers, with low-rank
/// layers cut as usual, and with low-rank layers cut at their wide side.
struct BlockVolumes {
  Bytes full_rank{0};
  Bytes low_rank{0};
  Bytes bottleneck{0};
};
TUTTI_RUNTIME_API BlockVolumes block_volumes(const LowRankShape& shape, int64_t tensor_ranks);

/// A buffer that is summed in place over all ranks.
struct SumPart {
  void* data = nullptr;
  size_t count = 0;
  tuttiDataType_t type = tuttiFloat32;
};
/// All parts progress together, as one group. Every rank passes the same counts and types. Memory
/// of a device goes with a stream of that device; the call then waits as calls on it do.
TUTTI_RUNTIME_API void all_reduce_together(tuttiComm_t comm, std::span<const SumPart> parts,
                                           bool deterministic = false,
                                           tuttiStream_t stream = tuttiBlocking());

/// Sums of several buffers as one all_reduce: [z, s] of BOOST, a bottleneck's activations and the
/// statistics of their norm, which are too few to be worth a collective of their own.
///
/// Parts are cast to the wire's type, float or double, added there and rounded once to their own: a
/// part is of the wire's type or of 16 bits. Memory of the host, on the BLOCKING stream.
/// Owns: the wire's buffer, as long as the longest sum so far. Threads: one at a time.
class TUTTI_RUNTIME_API FusedSum {
 public:
  explicit FusedSum(tuttiComm_t comm, tuttiDataType_t wire = tuttiFloat32);

  /// In place; every rank passes parts of the same counts and types.
  void run(std::span<const SumPart> parts, bool deterministic = false);
  int64_t collectives() const { return collectives_; }

 private:
  tuttiComm_t comm_;
  tuttiDataType_t wire_;
  std::vector<std::byte> buffer_;
  int64_t collectives_ = 0;
};

}  // namespace tutti::runtime
