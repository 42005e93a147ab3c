// The kernels: two for each row of TUTTI_FOLD_KERNELS (fold_element.h). One folds what is there
// (fold.h has the work of a thread), the other runs a short call by itself (fused_thread.h). One
// more copies pieces of transfers (placed_pieces.h).
#include "src/engines/cuda/fold.h"
#include "src/engines/cuda/fused_thread.h"
#include "src/engines/cuda/placed_pieces.h"

namespace tutti::engines::cuda {

#define TUTTI_FOLD_KERNEL(Type, type, Operation, operation)                                 \
  extern "C" __global__ void __launch_bounds__(kFoldThreads, 1)                             \
      tutti_fold_##type##_##operation(const __grid_constant__ FoldParameters given) {       \
    FoldThread<types::DataType::k##Type, types::ReduceOp::k##Operation>(given).run(         \
        uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x); \
  }
TUTTI_FOLD_KERNELS(TUTTI_FOLD_KERNEL)
#undef TUTTI_FOLD_KERNEL

// Words may lie in the host's memory, so one thread of a block reads each.
extern "C" __global__ void __launch_bounds__(kFoldThreads, 1)
    tutti_copy_pieces(const __grid_constant__ PlacedPieces given) {
  __shared__ uint64_t sources[PlacedPieces::kMost];
  if (threadIdx.x < given.count) {
    const PlacedPiece& piece = given.pieces[threadIdx.x];
    const uint64_t word = *reinterpret_cast<const volatile uint64_t*>(piece.place);
    sources[threadIdx.x] = source_of(piece, given.mark, word);
  }
  __syncthreads();
  for (uint32_t i = 0; i < given.count; ++i) {
    PieceCopy{given.pieces[i].target, sources[i], given.pieces[i].bytes}.run(
        uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x);
  }
}

namespace {

/// Of a device: what other devices store, and what they read, past all caches that are this one's
/// alone. Of a vector each 8 bytes are one access.
struct DeviceLines {
  __device__ FusedLine load_line(uint64_t address) const {
    FusedLine line;
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(line.half[0]), "=l"(line.half[1])
                 : "l"(address)
                 : "memory");
    return line;
  }
  __device__ void store_line(uint64_t address, const FusedLine& line) const {
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(address), "l"(line.half[0]),
                 "l"(line.half[1])
                 : "memory");
  }
  __device__ uint64_t load_word(uint64_t address) const {
    uint64_t word;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(word) : "l"(address) : "memory");
    return word;
  }
  __device__ void store_word(uint64_t address, uint64_t word) const {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(address), "l"(word) : "memory");
  }
  __device__ uint64_t now_ns() const {
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
  }
  __device__ void missed() const {}
};

template <types::DataType kType, types::ReduceOp kOp>
__device__ __forceinline__ void run_fused(const FusedProgram& program) {
  DeviceLines lines;
  FusedThread<kType, kOp, DeviceLines> thread(
      program, {blockIdx.x, gridDim.x, threadIdx.x, blockDim.x}, lines);
  thread.run();
  __syncthreads();
  if (threadIdx.x == 0) thread.finish();
}

}  // namespace

#define TUTTI_FUSED_KERNEL(Type, type, Operation, operation)                           \
  extern "C" __global__ void __launch_bounds__(kFusedThreads, 1)                       \
      tutti_fused_##type##_##operation(const __grid_constant__ FusedProgram program) { \
    run_fused<types::DataType::k##Type, types::ReduceOp::k##Operation>(program);       \
  }
TUTTI_FOLD_KERNELS(TUTTI_FUSED_KERNEL)
#undef TUTTI_FUSED_KERNEL

}  // namespace tutti::engines::cuda
