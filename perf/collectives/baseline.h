// Another library that makes the same calls in the same processes, on the same buffers and stream.
//
// Threads: the rank's. Errors: PerfError.
#pragma once

#include <functional>
#include <memory>

#include "perf/collectives/communicator.h"

namespace tutti::perf {

class Baseline {
 public:
  virtual ~Baseline() = default;
  /// Whether it has such a call. Equal on all ranks.
  virtual bool has(const Operation& operation, bool in_place) const = 0;
  virtual void enqueue(const Operation& operation, const void* send, void* recv) = 0;
  /// Waits for its calls. Errors of those on their way are told here.
  virtual void synchronize() = 0;
};

/// Collective. The communicator outlives it.
using OpenBaseline = std::function<std::unique_ptr<Baseline>(
    const RankContext& context, const Subgroup& group, const Communicator& communicator)>;

}  // namespace tutti::perf
