// The fold of the memory of a team of devices by the switch between them
// (drivers/cuda/multicast.h): what all devices have at a place is reduced, and the result is stored
// at that place of all of them. This is the kernel itself, for one thread of it; it compiles for
// devices (multicast.cu) and for hosts, where tests run it as what the software device calls a
// kernel.
//
// The kernel waits for nobody: what it reads is there when it begins, and nobody else reads or
// writes those places until it is over, since the streams of the devices see to that. So what it
// stores behind one address and others read behind another one is in order, too: the CUDA
// programming guide promises that of operations that are over ("virtual aliasing support").
//
// The order of a sum is the switch's own. All devices get the same bits, since one thread of one
// device asks for them. Floats of 16 bits are added in fp32 and rounded once.
#pragma once

#include <cstdint>

#include "src/engines/cuda/fold_element.h"

namespace tutti::engines::cuda {

/// A launch's parameter, passed by value.
struct MulticastParameters {
  uint64_t address = 0;  // of the team's memory; a multiple of kFoldWordsBytes
  uint64_t words = 0;    // of kFoldWordsBytes each, all of which are folded
};

/// X(type, its name, operation, its name): a kernel, tutti_multicast_<type>_<operation>. These are
/// the folds that PTX has for whole vectors and whose results are those of every other way, but for
/// the order of a sum and for which NaN it is: no products, nor the greatest of floats, which loses
/// NaNs there, nor integers below 32 bits, but by bits.
#define TUTTI_MULTICAST_OF_SIGNED(X, Type, type) \
  X(Type, type, Sum, sum) X(Type, type, Max, max) X(Type, type, Min, min)
#define TUTTI_MULTICAST_BY_BITS(X, Type, type) \
  X(Type, type, BitAnd, band) X(Type, type, BitOr, bor) X(Type, type, BitXor, bxor)
#define TUTTI_MULTICAST_KERNELS(X)             \
  TUTTI_MULTICAST_OF_SIGNED(X, Int32, int32)   \
  TUTTI_MULTICAST_OF_SIGNED(X, Int64, int64)   \
  TUTTI_MULTICAST_OF_SIGNED(X, Uint32, uint32) \
  TUTTI_MULTICAST_OF_SIGNED(X, Uint64, uint64) \
  TUTTI_MULTICAST_BY_BITS(X, Uint8, uint8)     \
  TUTTI_MULTICAST_BY_BITS(X, Uint16, uint16)   \
  TUTTI_MULTICAST_BY_BITS(X, Uint32, uint32)   \
  TUTTI_MULTICAST_BY_BITS(X, Uint64, uint64)   \
  X(Float16, half, Sum, sum)                   \
  X(Bfloat16, bfloat16, Sum, sum)              \
  X(Float32, float, Sum, sum)                  \
  X(Float64, double, Sum, sum)

/// A thread of a kernel. `Team` is how the team's memory is reached: load<type, op>(address) and
/// store(address, words).
template <types::DataType kType, types::ReduceOp kOp, class Team>
TUTTI_BOTH void fold_team(const MulticastParameters& given, const Team& team, uint64_t thread,
                          uint64_t threads) {
  constexpr uint32_t kAtOnce = 4;  // loads that are under way at once
  TUTTI_ONCE
  for (uint64_t i = thread; i < given.words; i += threads * kAtOnce) {
    FoldWords words[kAtOnce];
    TUTTI_UNROLL
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint64_t at = i + u * threads;
      if (at >= given.words) continue;
      words[u] = team.template load<kType, kOp>(given.address + at * kFoldWordsBytes);
    }
    TUTTI_UNROLL
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint64_t at = i + u * threads;
      if (at < given.words) team.store(given.address + at * kFoldWordsBytes, words[u]);
    }
  }
}

}  // namespace tutti::engines::cuda
