// The fold of device memory: any number of sources into one value, which goes to one or more
// targets, in one pass. This is the kernel itself, for one thread of it; it compiles for devices
// (fold.cu) and for hosts, where tests run it as what the software device calls a kernel.
//
// A kernel never waits: what it reads is there when it begins, since the stream has waited. It
// reads any memory that the device can map, the rings of peers included, and writes to its own
// rank's.
//
// The bits of results are those of the host's kernels (src/types/kernels.h), whatever count and
// alignment; whether to take 16 bytes at once follows from the addresses alone. Sources and targets
// may be equal but may not partly overlap. Threads: those of the launch share the elements, in no
// order. Errors: none. Nothing is fused: it is compiled without contraction.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "src/types/element.h"
#include "src/types/narrow_float.h"
#include "src/types/types.h"

#ifdef __CUDACC__
#define TUTTI_BOTH __host__ __device__ __forceinline__
#define TUTTI_UNROLL _Pragma("unroll")
#define TUTTI_ONCE _Pragma("unroll 1")
#else
#define TUTTI_BOTH inline
#define TUTTI_UNROLL
#define TUTTI_ONCE
#endif

namespace tutti::engines::cuda {

inline constexpr uint32_t kMostFoldSources = 128;
inline constexpr uint32_t kMostFoldTargets = 8;
/// Of a block.
inline constexpr uint32_t kFoldThreads = 512;

/// By what the sources in a mask are multiplied.
enum class FactorIs : uint32_t {
  kDouble,   // `factor` as a double, rounded to what is folded in: the average of floats
  kElement,  // an element in the low bytes of `factor`: a scaled sum
  kInMemory  // the same, read at the address `factor`
};

/// A launch's parameter, passed by value. Addresses are those of the device.
struct FoldParameters {
  uint64_t count = 0;  // elements
  uint32_t source_count = 0;
  uint32_t target_count = 0;
  uint32_t in_tree = 0;  // types::FoldOrder::kTree
  FactorIs factor_is = FactorIs::kDouble;
  uint64_t factor = 0;
  uint64_t scaled[kMostFoldSources / 64] = {};  // bit i: source i is multiplied first
  int64_t divisor = 1;                          // of integers
  uint64_t sources[kMostFoldSources] = {};
  uint64_t targets[kMostFoldTargets] = {};
};
static_assert(sizeof(FoldParameters) <= 4096, "more does not fit into a launch");

/// X(type, its name, operation, its name): a kernel, tutti_fold_<type>_<operation>. Sums and what
/// is no number's are the same bits for both kinds of integers, and bools are folded as bytes.
#define TUTTI_FOLDS_OF_FLOATS(X, Type, type) \
  X(Type, type, Sum, sum) X(Type, type, Prod, prod) X(Type, type, Max, max) X(Type, type, Min, min)
#define TUTTI_FOLDS_OF_SIGNED(X, Type, type) \
  X(Type, type, Sum, sum) X(Type, type, Max, max) X(Type, type, Min, min)
#define TUTTI_FOLDS_OF_UNSIGNED(X, Type, type) \
  TUTTI_FOLDS_OF_FLOATS(X, Type, type)         \
  X(Type, type, BitAnd, band) X(Type, type, BitOr, bor) X(Type, type, BitXor, bxor)
#define TUTTI_FOLD_KERNELS(X)                  \
  TUTTI_FOLDS_OF_SIGNED(X, Int8, int8)         \
  TUTTI_FOLDS_OF_SIGNED(X, Int16, int16)       \
  TUTTI_FOLDS_OF_SIGNED(X, Int32, int32)       \
  TUTTI_FOLDS_OF_SIGNED(X, Int64, int64)       \
  TUTTI_FOLDS_OF_UNSIGNED(X, Uint8, uint8)     \
  TUTTI_FOLDS_OF_UNSIGNED(X, Uint16, uint16)   \
  TUTTI_FOLDS_OF_UNSIGNED(X, Uint32, uint32)   \
  TUTTI_FOLDS_OF_UNSIGNED(X, Uint64, uint64)   \
  TUTTI_FOLDS_OF_FLOATS(X, Float16, half)      \
  TUTTI_FOLDS_OF_FLOATS(X, Bfloat16, bfloat16) \
  TUTTI_FOLDS_OF_FLOATS(X, Float32, float)     \
  TUTTI_FOLDS_OF_FLOATS(X, Float64, double)    \
  TUTTI_FOLDS_OF_FLOATS(X, Float8E4M3, e4m3)   \
  TUTTI_FOLDS_OF_FLOATS(X, Float8E5M2, e5m2)

/// 16 bytes, or one element in the first of them.
struct FoldWords {
  uint32_t word[4] = {};
};

inline constexpr uint32_t kFoldWordsBytes = sizeof(FoldWords);

// As one instruction each: the compiler would cut a store where it sees what its words are.
TUTTI_BOTH FoldWords load_words(uint64_t address) {
  FoldWords words;
#ifdef __CUDA_ARCH__
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.word[0]), "=r"(words.word[1]), "=r"(words.word[2]), "=r"(words.word[3])
               : "l"(address));
#else
  std::memcpy(words.word, reinterpret_cast<const void*>(address), sizeof words.word);
#endif
  return words;
}

TUTTI_BOTH void store_words(uint64_t address, const FoldWords& words) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(words.word[0]),
               "r"(words.word[1]), "r"(words.word[2]), "r"(words.word[3])
               : "memory");
#else
  std::memcpy(reinterpret_cast<void*>(address), words.word, sizeof words.word);
#endif
}

/// An element of memory: its bits, and what it is folded in.
template <types::DataType kType>
struct FoldElement {
  using Wide = typename types::Element<kType>::Wide;
  static constexpr uint32_t kBytes = types::Element<kType>::kSize;
  using Raw =
      std::conditional_t<kBytes == 1, uint8_t,
                         std::conditional_t<kBytes == 2, uint16_t,
                                            std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;

  static TUTTI_BOTH Wide widen(Raw raw) {
    if constexpr (types::Element<kType>::kParts == 1) {
      return std::bit_cast<Wide>(raw);
    } else if constexpr (kType == types::DataType::kBfloat16) {
      return types::decoded_bfloat16(raw);
    } else {
#ifdef __CUDA_ARCH__
      if constexpr (kType == types::DataType::kFloat16) {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(raw));
        return value;
      }
#endif
      constexpr types::FloatFormat format = types::Element<kType>::kFormat;
      return types::decoded(format, raw);
    }
  }

  /// Every NaN becomes the one that is stored.
  static TUTTI_BOTH Raw narrow(Wide value) {
    if constexpr (std::is_integral_v<Wide>) {
      return static_cast<Raw>(value);
    } else if constexpr (types::Element<kType>::kParts == 1) {
      return std::bit_cast<Raw>(value != value ? std::numeric_limits<Wide>::quiet_NaN() : value);
    } else if constexpr (kType == types::DataType::kBfloat16) {
#ifdef __CUDA_ARCH__
      Raw code;
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(code) : "f"(value));
      return value != value ? static_cast<Raw>(0x7FC0u) : code;
#else
      return static_cast<Raw>(types::encoded_bfloat16(value));
#endif
    } else {
      constexpr types::FloatFormat format = types::Element<kType>::kFormat;
#ifdef __CUDA_ARCH__
      if constexpr (kType == types::DataType::kFloat16) {
        Raw code;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(value));
        return value != value ? static_cast<Raw>(format.nan_code) : code;
      }
#endif
      return static_cast<Raw>(types::encoded(format, value));
    }
  }

  /// Byte by byte where a caller's memory is not even aligned to elements.
  static TUTTI_BOTH Raw load(uint64_t address) {
    if (address % kBytes == 0) return *reinterpret_cast<const Raw*>(address);
    Raw raw = 0;
    TUTTI_ONCE
    for (uint32_t i = 0; i < kBytes; ++i) {
      const auto byte = static_cast<Raw>(*reinterpret_cast<const uint8_t*>(address + i));
      raw = static_cast<Raw>(raw | byte << (8 * i));
    }
    return raw;
  }
  static TUTTI_BOTH void store(uint64_t address, Raw raw) {
    if (address % kBytes == 0) {
      *reinterpret_cast<Raw*>(address) = raw;
      return;
    }
    TUTTI_ONCE
    for (uint32_t i = 0; i < kBytes; ++i) {
      *reinterpret_cast<uint8_t*>(address + i) = static_cast<uint8_t>(raw >> (8 * i));
    }
  }

  static TUTTI_BOTH Raw lane(const FoldWords& words, uint32_t index) {
    if constexpr (kBytes == 8) {
      return words.word[2 * index] | uint64_t{words.word[2 * index + 1]} << 32;
    } else {
      constexpr uint32_t kPerWord = 4 / kBytes;
      return static_cast<Raw>(words.word[index / kPerWord] >> (8 * kBytes * (index % kPerWord)));
    }
  }
  static TUTTI_BOTH void set_lane(FoldWords& words, uint32_t index, Raw raw) {
    if constexpr (kBytes == 8) {
      words.word[2 * index] = static_cast<uint32_t>(raw);
      words.word[2 * index + 1] = static_cast<uint32_t>(raw >> 32);
    } else {
      constexpr uint32_t kPerWord = 4 / kBytes;
      words.word[index / kPerWord] |= uint32_t{raw} << (8 * kBytes * (index % kPerWord));
    }
  }
};

/// Integers wrap. Of two floats the larger is the NaN if there is one, and +0 of two zeros.
template <types::ReduceOp kOp, class T>
TUTTI_BOTH T combined(T a, T b) {
  using types::ReduceOp;
  if constexpr (kOp == ReduceOp::kSum || kOp == ReduceOp::kProd) {
    if constexpr (std::is_floating_point_v<T>) {
      return kOp == ReduceOp::kSum ? a + b : a * b;
    } else {
      using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
      const Word x = static_cast<Word>(a), y = static_cast<Word>(b);
      return static_cast<T>(kOp == ReduceOp::kSum ? x + y : x * y);
    }
  } else if constexpr (kOp == ReduceOp::kBitAnd) {
    return static_cast<T>(a & b);
  } else if constexpr (kOp == ReduceOp::kBitOr) {
    return static_cast<T>(a | b);
  } else if constexpr (kOp == ReduceOp::kBitXor) {
    return static_cast<T>(a ^ b);
  } else {
    constexpr bool kMax = kOp == ReduceOp::kMax;
    if constexpr (std::is_floating_point_v<T>) {
      using Raw = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
      if (a != a) return a;
      if (b != b) return b;
      if (a == b) {
        const Raw x = std::bit_cast<Raw>(a), y = std::bit_cast<Raw>(b);
        return std::bit_cast<T>(kMax ? x & y : x | y);
      }
    }
    return (a > b) == kMax ? a : b;
  }
}

/// A thread of a kernel.
template <types::DataType kType, types::ReduceOp kOp>
class FoldThread {
  using E = FoldElement<kType>;
  using Wide = typename E::Wide;
  static constexpr uint32_t kLanes = kFoldWordsBytes / E::kBytes;
  // Loads of a source that are under way at once.
  static constexpr uint32_t kAtOnce = E::kBytes == 1 ? 2 : 4;
  static constexpr bool kScales = kOp == types::ReduceOp::kSum;

 public:
  TUTTI_BOTH explicit FoldThread(const FoldParameters& given) : given_(given) {
    if constexpr (kScales) factor_ = factor_of(given);
  }

  /// Its share: `thread` is one of `threads` of all blocks. Whole vectors lie between a head and a
  /// tail of single elements; all are single ones where operands are not alike, and in a tree.
  TUTTI_BOTH void run(uint64_t thread, uint64_t threads) const {
    const bool is_tree = given_.in_tree != 0 && given_.source_count > 2;
    uint64_t head = given_.count, vectors = 0;
    if (!is_tree && are_alike()) {
      const uint64_t misplaced = given_.targets[0] % kFoldWordsBytes;
      const uint64_t to_aligned = misplaced == 0 ? 0 : (kFoldWordsBytes - misplaced) / E::kBytes;
      head = to_aligned < given_.count ? to_aligned : given_.count;
      vectors = (given_.count - head) / kLanes;
    }
    run_vectors(head * E::kBytes, vectors, thread, threads);
    const uint64_t singles = given_.count - vectors * kLanes;
    TUTTI_ONCE
    for (uint64_t i = thread; i < singles; i += threads) {
      const uint64_t at[1] = {(i < head ? i : i + vectors * kLanes) * E::kBytes};
      if (is_tree) {
        fold_tree(at[0]);
      } else {
        fold_list<1, 1>(at, 1);
      }
    }
  }

 private:
  // Whether the same elements of all operands are aligned to 16 bytes.
  TUTTI_BOTH bool are_alike() const {
    const uint64_t first = given_.targets[0];
    uint64_t differs = first % E::kBytes;
    for (uint32_t i = 1; i < given_.target_count; ++i) differs |= first ^ given_.targets[i];
    for (uint32_t i = 0; i < given_.source_count; ++i) differs |= first ^ given_.sources[i];
    return differs % kFoldWordsBytes == 0;
  }

  static TUTTI_BOTH Wide factor_of(const FoldParameters& given) {
    if (given.factor_is == FactorIs::kInMemory) return E::widen(E::load(given.factor));
    if (given.factor_is == FactorIs::kElement) {
      return E::widen(static_cast<typename E::Raw>(given.factor));
    }
    if constexpr (std::is_floating_point_v<Wide>) {
      return static_cast<Wide>(std::bit_cast<double>(given.factor));
    } else {
      return Wide{1};
    }
  }

  TUTTI_BOTH bool is_scaled(uint32_t source) const {
    return kScales && (given_.scaled[source / 64] >> (source % 64) & 1) != 0;
  }

  // A contribution to a scaled sum has the bits that it would have in memory; an average is rounded
  // at the end.
  TUTTI_BOTH bool rounds_products() const { return given_.factor_is != FactorIs::kDouble; }

  TUTTI_BOTH Wide scaled(typename E::Raw raw) const {
    const Wide product = combined<types::ReduceOp::kProd>(E::widen(raw), factor_);
    return rounds_products() ? E::widen(E::narrow(product)) : product;
  }

  template <uint32_t kCount>
  static TUTTI_BOTH FoldWords load(uint64_t address) {
    if constexpr (kCount > 1) {
      return load_words(address);
    } else {
      FoldWords words;
      E::set_lane(words, 0, E::load(address));
      return words;
    }
  }

  template <uint32_t kCount>
  TUTTI_BOTH void store(uint64_t offset, const Wide (&wide)[kCount]) const {
    FoldWords words;
    TUTTI_UNROLL
    for (uint32_t lane = 0; lane < kCount; ++lane) {
      E::set_lane(words, lane, E::narrow(divided(wide[lane])));
    }
    TUTTI_ONCE
    for (uint32_t target = 0; target < given_.target_count; ++target) {
      const uint64_t address = given_.targets[target] + offset;
      if constexpr (kCount > 1) {
        store_words(address, words);
      } else {
        E::store(address, E::lane(words, 0));
      }
    }
  }

  TUTTI_BOTH Wide divided(Wide value) const {
    if constexpr (kScales && std::is_integral_v<Wide>) {
      using Number = std::conditional_t<sizeof(Wide) == 8, Wide, int64_t>;
      const auto divisor = static_cast<Number>(given_.divisor);
      if (divisor != 1) return static_cast<Wide>(static_cast<Number>(value) / divisor);
    }
    return value;
  }

  TUTTI_BOTH void run_vectors(uint64_t first, uint64_t vectors, uint64_t thread,
                              uint64_t threads) const {
    TUTTI_ONCE
    for (uint64_t i = thread; i < vectors; i += threads * kAtOnce) {
      uint64_t at[kAtOnce];
      uint32_t pieces = 0;
      TUTTI_UNROLL
      for (uint32_t u = 0; u < kAtOnce; ++u) {
        const uint64_t index = i + u * threads;
        if (index < vectors) ++pieces;
        at[u] = first + (index < vectors ? index : i) * kFoldWordsBytes;
      }
      fold_list<kLanes, kAtOnce>(at, pieces);
    }
  }

  template <uint32_t kCount, uint32_t kPieces, class ToWide>
  static TUTTI_BOTH void add(uint32_t source, const FoldWords (&loaded)[kPieces],
                             Wide (&folded)[kPieces][kCount], const ToWide& to_wide) {
    TUTTI_UNROLL
    for (uint32_t u = 0; u < kPieces; ++u) {
      TUTTI_UNROLL
      for (uint32_t lane = 0; lane < kCount; ++lane) {
        const Wide wide = to_wide(E::lane(loaded[u], lane));
        folded[u][lane] = source == 0 ? wide : combined<kOp>(folded[u][lane], wide);
      }
    }
  }

  // ((s0 op s1) op s2) op ..., of so many pieces of `kCount` elements at byte offsets `at`.
  template <uint32_t kCount, uint32_t kPieces>
  TUTTI_BOTH void fold_list(const uint64_t (&at)[kPieces], uint32_t pieces) const {
    Wide folded[kPieces][kCount] = {};
    TUTTI_ONCE
    for (uint32_t source = 0; source < given_.source_count; ++source) {
      FoldWords loaded[kPieces];
      TUTTI_UNROLL
      for (uint32_t u = 0; u < kPieces; ++u)
        loaded[u] = load<kCount>(given_.sources[source] + at[u]);
      // Two loops, since the compiler would rather compute both kinds of values of each element.
      if (is_scaled(source)) {
        add<kCount>(source, loaded, folded, [this](auto raw) { return scaled(raw); });
      } else {
        add<kCount>(source, loaded, folded, [](auto raw) { return E::widen(raw); });
      }
    }
    TUTTI_UNROLL
    for (uint32_t u = 0; u < kPieces; ++u) {
      if (u < pieces) store<kCount>(at[u], folded[u]);
    }
  }

  // A binary counter: after k sources, `pending` holds one complete subtree for each set bit of k,
  // and adding a source carries as adding one does. A node has the bits it would have in memory.
  // All indices are known to the compiler, so that a kernel has no stack: to make room for one the
  // driver may wait for the device.
  TUTTI_BOTH void fold_tree(uint64_t at) const {
    constexpr uint32_t kHeight = std::bit_width(kMostFoldSources);
    Wide pending[kHeight] = {};
    TUTTI_ONCE
    for (uint32_t source = 0; source < given_.source_count; ++source) {
      const typename E::Raw raw = E::load(given_.sources[source] + at);
      Wide node = is_scaled(source) ? scaled(raw) : E::widen(raw);
      bool carries = true;
      TUTTI_UNROLL
      for (uint32_t height = 0; height < kHeight; ++height) {
        const bool taken = (source >> height & 1) != 0;
        if (carries && taken) node = joined(pending[height], node);
        if (carries && !taken) pending[height] = node;
        carries = carries && taken;
      }
    }
    store_rest(at, pending);
  }

  // At the end partners are missing, and the subtrees that are left are joined.
  template <uint32_t kHeight>
  TUTTI_BOTH void store_rest(uint64_t at, const Wide (&pending)[kHeight]) const {
    Wide folded[1] = {};
    bool has_any = false;
    TUTTI_UNROLL
    for (uint32_t height = 0; height < kHeight; ++height) {
      if ((given_.source_count >> height & 1) == 0) continue;
      folded[0] = has_any ? joined(pending[height], folded[0]) : pending[height];
      has_any = true;
    }
    store<1>(at, folded);
  }

  static TUTTI_BOTH Wide joined(Wide left, Wide right) {
    const Wide wide = combined<kOp>(left, right);
    return types::Element<kType>::kParts == 1 ? wide : E::widen(E::narrow(wide));
  }

  const FoldParameters& given_;
  Wide factor_{};
};

}  // namespace tutti::engines::cuda
