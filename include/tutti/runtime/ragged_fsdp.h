// Ragged FSDP: tensors of any block structure in one bucket of equal shares (veScale-FSDP, also
// named FlexScale).
//
// Exact: the sharding (ragged() in sharding.h), the in-place buffer, and the planner for a given
// order of tensors: a greedy search over share sizes, equal to exhaustive search. Reconstructed:
// the paper's own planner is a dynamic program without public code; orders of tensors are the
// caller's to try.
//
// Units:   elements. A tensor of `elements` is cut only at multiples of its `block`.
// Errors:  throws Error: blocks that do not divide, sizes whose product overflows.
// Threads: plans are values; a buffer as its communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/assign.h"
#include "tutti/runtime/run_timeline.h"
#include "tutti/runtime/sharding.h"

namespace tutti::runtime {

struct BucketTensor {
  int64_t elements = 0;
  int64_t block = 1;
};

/// The block of a tensor of this shape that is ragged along its first `ragged_dims` dimensions, cut
/// at multiples of `rows` of them taken together: the elements of `rows` entries of what remains.
TUTTI_RUNTIME_API int64_t ragged_block(std::span<const int64_t> shape,
                                       std::span<const int> ragged_dims, int64_t rows);

struct BucketPlan {
  int ranks = 0;
  int64_t share = 0;             // elements of each rank
  std::vector<int64_t> offsets;  // of each tensor in the whole buffer
  std::vector<BucketTensor> tensors;

  int64_t padding() const {
    int64_t used = 0;
    for (const BucketTensor& tensor : tensors) used += tensor.elements;
    return share * ranks - used;
  }
};

/// The smallest share that is a multiple of `align` such that the tensors, in this order, lie one
/// behind the other and no share ends inside a block.
TUTTI_RUNTIME_API BucketPlan plan_bucket(std::span<const BucketTensor> tensors, int ranks,
                                         int64_t align);

/// A rank for each matrix where it is updated as a whole (Muon): the costs balanced by lpt.
TUTTI_RUNTIME_API std::vector<int> choose_roots(std::span<const int64_t> costs, int ranks);

/// Where a tensor's elements are: on which ranks, and at which places of their shares.
TUTTI_RUNTIME_API Sharding tensor_sharding(const BucketPlan& plan, int tensor);

/// One allocation for a bucket, for as long as it lives: tensors are slices of it, collectives run
/// in place in registered memory, and the runtime copies nothing.
/// Memory:   of the host, or for a stream of a device memory of that device; or the caller's.
/// Types:    any that the library gathers; sums of floats of 16 and 8 bits are added in fp32 and
///           rounded once a hop. To gather in bfloat16 and reduce in fp32, make a buffer of each.
/// Owns:     the memory that it allocated, and its registration with the communicator, which must
///           live longer.
/// Ordering: construction and collectives are collective over the communicator. Construction
///           compares the plans of all ranks. A collective waits as calls on its stream do.
class TUTTI_RUNTIME_API BucketBuffer {
 public:
  /// Elements of this type: on the host all 0, in a device's memory of undefined value. With
  /// `memory` the buffer lies there (plan.share * plan.ranks elements), and registering it is the
  /// caller's affair. `stream` is the one that later calls take by default.
  BucketBuffer(tuttiComm_t comm, BucketPlan plan, tuttiDataType_t type,
               tuttiStream_t stream = tuttiBlocking(), void* memory = nullptr);
  ~BucketBuffer();
  BucketBuffer(const BucketBuffer&) = delete;
  BucketBuffer& operator=(const BucketBuffer&) = delete;

  const BucketPlan& plan() const { return plan_; }
  /// A tensor in the whole buffer: valid everywhere after a gather.
  void* tensor(int index) const;
  /// This rank's share.
  void* share() const;

  /// Every rank's share to all ranks.
  void all_gather() { all_gather(stream_); }
  void all_gather(tuttiStream_t stream);
  /// The sum of all ranks' buffers, each share on its rank; the rest of the buffer is then
  /// undefined.
  void reduce_scatter(bool deterministic = false) { reduce_scatter(deterministic, stream_); }
  void reduce_scatter(bool deterministic, tuttiStream_t stream);
  /// The same as tasks of a timeline, which has channels of its own.
  Payload gather_payload() const;
  Payload scatter_payload() const;

 private:
  std::byte* at_element(int64_t element) const;

  tuttiComm_t comm_;
  BucketPlan plan_;
  tuttiDataType_t type_;
  tuttiStream_t stream_;
  bool owns_;
  int rank_ = 0;
  uint32_t epoch_ = 0;
  void* memory_ = nullptr;
  void* registration_ = nullptr;
};

}  // namespace tutti::runtime
