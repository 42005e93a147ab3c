// The kernels: one for each row of TUTTI_FOLD_KERNELS (fold.h), which has the work of a thread.
#include "src/engines/cuda/fold.h"

namespace tutti::engines::cuda {

#define TUTTI_FOLD_KERNEL(Type, type, Operation, operation)                                 \
  extern "C" __global__ void __launch_bounds__(kFoldThreads, 1)                             \
      tutti_fold_##type##_##operation(const __grid_constant__ FoldParameters given) {       \
    FoldThread<types::DataType::k##Type, types::ReduceOp::k##Operation>(given).run(         \
        uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x); \
  }
TUTTI_FOLD_KERNELS(TUTTI_FOLD_KERNEL)
#undef TUTTI_FOLD_KERNEL

}  // namespace tutti::engines::cuda
