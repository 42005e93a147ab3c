// The kernels that fold a team's memory by the switch: one for each row of TUTTI_MULTICAST_KERNELS
// (multicast_fold.h has the work of a thread). They need compute capability 9.0.
#include "src/engines/cuda/fold.h"
#include "src/engines/cuda/multicast_fold.h"

namespace tutti::engines::cuda {
namespace {

#define TUTTI_LOAD_4(instruction, words, address)                                              \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." instruction " {%0, %1, %2, %3}, [%4];" \
               : "=r"(words.word[0]), "=r"(words.word[1]), "=r"(words.word[2]),                \
                 "=r"(words.word[3])                                                           \
               : "l"(address)                                                                  \
               : "memory")
#define TUTTI_LOAD_32(instruction, words, address)                               \
  for (uint32_t i = 0; i < 4; ++i)                                               \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." instruction " %0, [%1];" \
               : "=r"(words.word[i])                                             \
               : "l"(address + 4 * i)                                            \
               : "memory")
#define TUTTI_LOAD_64(instruction, words, address)                                 \
  for (uint32_t i = 0; i < 2; ++i) {                                               \
    uint64_t value;                                                                \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." instruction " %0, [%1];" \
                 : "=l"(value)                                                     \
                 : "l"(address + 8 * i)                                            \
                 : "memory");                                                      \
    words.word[2 * i] = static_cast<uint32_t>(value);                              \
    words.word[2 * i + 1] = static_cast<uint32_t>(value >> 32);                    \
  }

/// By instructions of the device.
struct DeviceTeam {
  template <types::DataType kType, types::ReduceOp kOp>
  __device__ FoldWords load(uint64_t address) const {
    using types::DataType;
    using types::ReduceOp;
    FoldWords words;
    if constexpr (kOp == ReduceOp::kBitAnd) {
      TUTTI_LOAD_32("and.b32", words, address);
    } else if constexpr (kOp == ReduceOp::kBitOr) {
      TUTTI_LOAD_32("or.b32", words, address);
    } else if constexpr (kOp == ReduceOp::kBitXor) {
      TUTTI_LOAD_32("xor.b32", words, address);
    } else if constexpr (kType == DataType::kFloat16) {
      TUTTI_LOAD_4("add.acc::f32.v4.f16x2", words, address);
    } else if constexpr (kType == DataType::kBfloat16) {
      TUTTI_LOAD_4("add.acc::f32.v4.bf16x2", words, address);
    } else if constexpr (kType == DataType::kFloat32) {
      TUTTI_LOAD_4("add.v4.f32", words, address);
    } else if constexpr (kType == DataType::kFloat64) {
      load_doubles(words, address);
    } else if constexpr (kOp == ReduceOp::kSum) {
      load_sums<FoldElement<kType>::kBytes>(words, address);
    } else if constexpr (kType == DataType::kInt32) {
      if constexpr (kOp == ReduceOp::kMax) TUTTI_LOAD_32("max.s32", words, address);
      if constexpr (kOp == ReduceOp::kMin) TUTTI_LOAD_32("min.s32", words, address);
    } else if constexpr (kType == DataType::kUint32) {
      if constexpr (kOp == ReduceOp::kMax) TUTTI_LOAD_32("max.u32", words, address);
      if constexpr (kOp == ReduceOp::kMin) TUTTI_LOAD_32("min.u32", words, address);
    } else if constexpr (kType == DataType::kInt64) {
      if constexpr (kOp == ReduceOp::kMax) TUTTI_LOAD_64("max.s64", words, address);
      if constexpr (kOp == ReduceOp::kMin) TUTTI_LOAD_64("min.s64", words, address);
    } else {
      static_assert(kType == DataType::kUint64);
      if constexpr (kOp == ReduceOp::kMax) TUTTI_LOAD_64("max.u64", words, address);
      if constexpr (kOp == ReduceOp::kMin) TUTTI_LOAD_64("min.u64", words, address);
    }
    return words;
  }

  __device__ void store(uint64_t address, const FoldWords& words) const {
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address),
                 "r"(words.word[0]), "r"(words.word[1]), "r"(words.word[2]), "r"(words.word[3])
                 : "memory");
  }

 private:
  // Sums that wrap are the same bits of both kinds of integers.
  template <uint32_t kBytes>
  static __device__ void load_sums(FoldWords& words, uint64_t address) {
    if constexpr (kBytes == 4) {
      TUTTI_LOAD_32("add.u32", words, address);
    } else {
      TUTTI_LOAD_64("add.u64", words, address);
    }
  }

  static __device__ void load_doubles(FoldWords& words, uint64_t address) {
    for (uint32_t i = 0; i < 2; ++i) {
      double value;
      asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f64 %0, [%1];"
                   : "=d"(value)
                   : "l"(address + 8 * i)
                   : "memory");
      const auto bits = static_cast<uint64_t>(__double_as_longlong(value));
      words.word[2 * i] = static_cast<uint32_t>(bits);
      words.word[2 * i + 1] = static_cast<uint32_t>(bits >> 32);
    }
  }
};

}  // namespace

#define TUTTI_MULTICAST_KERNEL(Type, type, Operation, operation)                                \
  extern "C" __global__ void __launch_bounds__(kFoldThreads, 1)                                 \
      tutti_multicast_##type##_##operation(const __grid_constant__ MulticastParameters given) { \
    fold_team<types::DataType::k##Type, types::ReduceOp::k##Operation>(                         \
        given, DeviceTeam{}, uint64_t{blockIdx.x} * blockDim.x + threadIdx.x,                   \
        uint64_t{gridDim.x} * blockDim.x);                                                      \
  }
TUTTI_MULTICAST_KERNELS(TUTTI_MULTICAST_KERNEL)
#undef TUTTI_MULTICAST_KERNEL

}  // namespace tutti::engines::cuda
