// The kernels of a rank, loaded: which one folds what, and its launch.
//
// Owns: the module, whose functions are all loaded when it is made. Threads: one at a time.
// Contexts: the rank's is current; ending it may wait for the device.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "src/drivers/cuda/module.h"
#include "src/engines/cuda/fold.h"
#include "src/engines/cuda/multicast_fold.h"
#include "src/engines/cuda/placed_pieces.h"
#include "src/types/fold_key.h"

namespace tutti::engines::cuda {

/// How many thread blocks a launch has.
struct Ctas {
  uint32_t least = 1;
  uint32_t most = 0;  // 0: kOwnCtas, or kCrossingCtas where sources are on other devices

  /// With what a call says of its own, where it is not 0: its most wins over a least of all calls.
  constexpr Ctas with(Ctas call) const {
    const uint32_t upper = call.most > 0 ? call.most : most;
    uint32_t lower = call.least > 0 ? call.least : least;
    if (call.most > 0 && call.least == 0 && lower > upper) lower = upper;
    return {lower, upper};
  }
};
/// A kernel that reads its own device is bound by its memory at few blocks already (16: 860 GB/s of
/// an H100, gpu.md); one that reads others waits longer for each load, and 16 blocks have too few
/// under way to fill a link.
inline constexpr uint32_t kOwnCtas = 16, kCrossingCtas = 32;

/// Type and operation of the kernel that does this fold (types::can_reduce).
types::FoldKey fold_row(types::DataType type, types::ReduceOp op);

class FoldKernels {
 public:
  /// kUnsupported: this build, or the device, has no kernels; the message says why. Another error
  /// says nothing of that.
  static Result<FoldKernels> load(const drivers::cuda::Cuda& cuda, Ctas ctas);

  /// Puts a fold into the stream. `parameters` name the sources, targets and factors; type and
  /// operation are a plan's (types::can_reduce).
  Status launch(types::DataType type, types::ReduceOp op, const FoldParameters& parameters,
                uint32_t blocks, drivers::cuda::CUstream stream) const;
  /// Loads those that fold by multicast (multicast_fold.h), which launch_shared() launches.
  /// kUnsupported: this build, or the device, has none.
  Status load_multicast(const drivers::cuda::Cuda& cuda);
  /// Whether there is a kernel of that fold.
  static bool folds_shared(types::DataType type, types::ReduceOp op);
  /// Puts a fold of a team's memory into the stream, of whole words.
  Status launch_shared(types::DataType type, types::ReduceOp op,
                       const MulticastParameters& parameters, uint32_t blocks,
                       drivers::cuda::CUstream stream) const;
  /// The same of a copy of pieces.
  Status launch(const PlacedPieces& pieces, uint32_t blocks, drivers::cuda::CUstream stream) const;
  /// With all kernels of this build.
  const drivers::cuda::CudaModule& module() const { return module_; }
  /// How many thread blocks launch() is to take, of a call that says so much. `crosses`: some
  /// source is not on the stream's device.
  uint32_t blocks_of(types::DataType type, uint64_t count, bool crosses, Ctas call) const {
    const Ctas ctas = ctas_.with(call);
    return blocks_for(count, types::size_of(type), {ctas.least, most_of(ctas, crosses)});
  }
  static uint32_t most_of(Ctas ctas, bool crosses) {
    if (ctas.most > 0) return ctas.most;
    return crosses ? kCrossingCtas : kOwnCtas;
  }
  /// Enough for the elements, and no more than is allowed.
  static uint32_t blocks_for(uint64_t count, uint64_t element_bytes, Ctas ctas);

 private:
  explicit FoldKernels(drivers::cuda::CudaModule module, Ctas ctas)
      : module_(std::move(module)), ctas_(ctas) {}

  using Functions =
      std::array<std::array<drivers::cuda::CUfunction, types::kReduceOps>, types::kDataTypes>;

  Result<drivers::cuda::CUfunction> find(const char* name) const;

  drivers::cuda::CudaModule module_;
  Ctas ctas_;
  Functions functions_{};  // by type and operation; null: that of another row (fold_row())
  drivers::cuda::CUfunction copy_pieces_ = nullptr;
  std::optional<drivers::cuda::CudaModule> multicast_;
  Functions shared_{};  // of multicast_
};

}  // namespace tutti::engines::cuda
