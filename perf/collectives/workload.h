// One case of a sweep on one rank: the call's arguments, its buffers, their contents and their
// check.
#pragma once

#include <cstddef>
#include <cstdint>

#include "perf/collectives/buffers.h"
#include "perf/collectives/collective.h"
#include "perf/collectives/communicator.h"
#include "perf/collectives/finding.h"
#include "perf/collectives/options.h"
#include "perf/collectives/pattern.h"

namespace tutti::perf {

/// One line of the table.
struct Case {
  size_t bytes;
  tuttiDataType_t type;
  tuttiRedOp_t op;
  int root;
};

/// A case and everything that follows from it, on one rank.
struct PreparedCase {
  PreparedCase(const PerfOptions& options, const Subgroup& group, const Case& one, bool in_place);
  PreparedCase(const PreparedCase&) = delete;  // the operation points into the shape
  PreparedCase& operator=(const PreparedCase&) = delete;

  Operation operation;
  Place place() const { return {operation.rank, operation.ranks, operation.root}; }

  Traffic traffic;
  size_t elements;  // what the shape was made for
  Shape shape;
  DataType type;
  bool in_place;
  InPlaceOffsets offsets;  // in elements; in place only

  /// The size in the table: the bytes of the larger buffer.
  size_t size_bytes() const;
};

/// The buffers of a rank, filled and checked for prepared cases.
class Workload {
 public:
  /// Collective.
  Workload(const Communicator& communicator, const PerfOptions& options);

  /// Cuts the buffers for this case and fills all pairs.
  void prepare(const PreparedCase& one);
  /// Fills the iteration's pair with new input and poisons what the call has to write.
  void refill(const PreparedCase& one, size_t iteration);
  /// Changes a bit in every cache line of the iteration's input, on ranks that have one: what
  /// readers still hold of it is stale. Costs no more than that, so it can run before every call.
  void renew(const PreparedCase& one, size_t iteration);
  /// The mistakes after a call on a refilled pair: in the output, and in an input that must not
  /// change.
  BufferMistakes check(const PreparedCase& one, size_t iteration) const;
  /// Makes one element of the output wrong, if there is such an element.
  void spoil(const PreparedCase& one, size_t iteration, size_t element);

  // Inline: they are called within what is timed.
  const std::byte* send(const PreparedCase& one, size_t iteration) const {
    if (!one.in_place) return buffers_.send(iteration);
    return buffers_.recv(iteration) + one.offsets.send * one.type.bytes;
  }
  std::byte* recv(const PreparedCase& one, size_t iteration) const {
    if (!one.in_place) return buffers_.recv(iteration);
    return buffers_.recv(iteration) + one.offsets.recv * one.type.bytes;
  }

 private:
  Pattern pattern(const PreparedCase& one) const;

  const size_t unaligned_elements_;
  Buffers buffers_;
  uint64_t seed_ = 0;  // the same on every rank, as every rank refills equally often
};

}  // namespace tutti::perf
