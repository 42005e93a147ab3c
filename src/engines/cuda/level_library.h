// A library that does whole collectives among the ranks of a host, as a stream puts its calls there
// (plan::LevelCall): NCCL.
//
// Threads: one at a time. Errors: as of a call of the communicator's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/status.h"
#include "src/drivers/cuda/driver.h"
#include "src/plan/plan.h"
#include "src/types/scalar.h"

namespace tutti::engines::cuda {

/// A row of a level call as this rank has it, in a slice.
struct LevelPart {
  plan::LevelRowKind kind = plan::LevelRowKind::kFold;
  int root = 0, peer = 0;                             // ranks of the host
  drivers::cuda::CUdeviceptr source = 0, target = 0;  // 0: this rank has none
  size_t count = 0;                                   // elements
};

struct LevelWork {
  plan::LevelWhole whole = plan::LevelWhole::kNone;
  types::DataType type = types::DataType::kFloat32;
  types::ReduceOp op = types::ReduceOp::kSum;
  std::span<const LevelPart> parts;  // none is empty
  // Of a scaled sum: by which what each rank brings is multiplied; or an average.
  const types::Scalar* factor = nullptr;
  double scale = 1;
  uint64_t deadline_ns = 0;  // of what may have to be connected first
};

class LevelLibrary {
 public:
  virtual ~LevelLibrary() = default;
  /// Puts the call into the stream, captured or not. All ranks of the host make the same calls in
  /// one order.
  virtual Status put_level(const LevelWork& work, drivers::cuda::CUstream stream) = 0;
};

}  // namespace tutti::engines::cuda
