#include "src/engines/cuda/fold_kernels.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "src/engines/cuda/fold_image.h"
#include "src/types/element.h"

namespace tutti::engines::cuda {
namespace {

using drivers::cuda::CUfunction;
using types::DataType;
using types::ReduceOp;

struct Row {
  DataType type;
  ReduceOp op;
  const char* name;
};

constexpr Row kRows[] = {
#define TUTTI_FOLD_ROW(Type, type, Operation, operation) \
  {DataType::k##Type, ReduceOp::k##Operation, "tutti_fold_" #type "_" #operation},
    TUTTI_FOLD_KERNELS(TUTTI_FOLD_ROW)
#undef TUTTI_FOLD_ROW
};

constexpr Row kSharedRows[] = {
#define TUTTI_MULTICAST_ROW(Type, type, Operation, operation) \
  {DataType::k##Type, ReduceOp::k##Operation, "tutti_multicast_" #type "_" #operation},
    TUTTI_MULTICAST_KERNELS(TUTTI_MULTICAST_ROW)
#undef TUTTI_MULTICAST_ROW
};

}  // namespace

types::FoldKey fold_row(DataType type, ReduceOp op) {
  if (op == ReduceOp::kAvg || op == ReduceOp::kScaledSum) op = ReduceOp::kSum;
  types::FoldKey key = types::of_numbers({.type = type, .op = op});
  if (key.op == ReduceOp::kProd || types::is_bitwise(key.op))
    key.type = types::unsigned_of(key.type);
  return key;
}

Result<FoldKernels> FoldKernels::load(const drivers::cuda::Cuda& cuda, Ctas ctas) {
  Result<drivers::cuda::CudaModule> module =
      drivers::cuda::CudaModule::load(cuda, fold_image().data());
  if (!module.ok()) {
    return Status(module.status().code(), "its device does not take this build's kernels: " +
                                              std::string(module.status().message()));
  }
  FoldKernels kernels(std::move(module).value(), ctas);
  for (const Row& row : kRows) {
    Result<CUfunction> function = kernels.find(row.name);
    if (!function.ok()) return function.status();
    kernels.functions_[static_cast<size_t>(row.type)][static_cast<size_t>(row.op)] =
        function.value();
  }
  Result<CUfunction> copy = kernels.find("tutti_copy_pieces");
  if (!copy.ok()) return copy.status();
  kernels.copy_pieces_ = copy.value();
  return kernels;
}

Result<CUfunction> FoldKernels::find(const char* name) const {
  Result<CUfunction> function = module_.function(name);
  if (function.ok() || function.status().code() != Code::kUnsupported) return function;
  return Status::unsupported("this build has no kernels (nvcc was not found): " +
                             std::string(function.status().message()));
}

Status FoldKernels::load_multicast(const drivers::cuda::Cuda& cuda) {
  Result<drivers::cuda::CudaModule> module =
      drivers::cuda::CudaModule::load(cuda, multicast_image().data());
  if (!module.ok()) return module.status();
  for (const Row& row : kSharedRows) {
    Result<CUfunction> function = module.value().function(row.name);
    if (!function.ok()) {
      return Status(function.status().code(),
                    "this build has no kernels of multicast (nvcc of "
                    "CUDA 12.1 or newer makes them): " +
                        std::string(function.status().message()));
    }
    shared_[static_cast<size_t>(row.type)][static_cast<size_t>(row.op)] = function.value();
  }
  multicast_.emplace(std::move(module).value());
  return {};
}

bool FoldKernels::folds_shared(DataType type, ReduceOp op) {
  const types::FoldKey key = fold_row(type, op);
  return std::any_of(std::begin(kSharedRows), std::end(kSharedRows),
                     [&](const Row& row) { return row.type == key.type && row.op == key.op; });
}

Status FoldKernels::launch_shared(DataType type, ReduceOp op, const MulticastParameters& parameters,
                                  uint32_t blocks, drivers::cuda::CUstream stream) const {
  const types::FoldKey row = fold_row(type, op);
  const CUfunction function = shared_[static_cast<size_t>(row.type)][static_cast<size_t>(row.op)];
  if (!multicast_ || function == nullptr) return Status::internal_error("no switch folds so");
  return multicast_->launch(function, blocks, kFoldThreads, stream, &parameters);
}

uint32_t FoldKernels::blocks_for(uint64_t count, uint64_t element_bytes, Ctas ctas) {
  constexpr uint64_t kBytes = uint64_t{kFoldThreads} * kFoldWordsBytes;  // of a block at once
  const uint64_t wanted = (count * element_bytes + kBytes - 1) / kBytes;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(wanted, ctas.least, std::max(ctas.least, ctas.most)));
}

Status FoldKernels::launch(DataType type, ReduceOp op, const FoldParameters& parameters,
                           uint32_t blocks, drivers::cuda::CUstream stream) const {
  const types::FoldKey row = fold_row(type, op);
  const CUfunction function =
      functions_[static_cast<size_t>(row.type)][static_cast<size_t>(row.op)];
  if (function == nullptr) return Status::internal_error("no kernel folds so");
  return module_.launch(function, blocks, kFoldThreads, stream, &parameters);
}

Status FoldKernels::launch(const PlacedPieces& pieces, uint32_t blocks,
                           drivers::cuda::CUstream stream) const {
  return module_.launch(copy_pieces_, blocks, kFoldThreads, stream, &pieces);
}

}  // namespace tutti::engines::cuda
