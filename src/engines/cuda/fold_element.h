// An element of device memory, as kernels compute with it: how it is loaded, widened, combined,
// multiplied, divided, narrowed and stored. It compiles for devices and for hosts, where tests run
// kernels as functions.
//
// The bits of results are those of the host's kernels (src/types/kernels.h). Threads: pure. Errors:
// none. Nothing is fused: it is compiled without contraction.
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

/// By what the sources in a mask are multiplied.
enum class FactorIs : uint32_t {
  kDouble,   // `factor` as a double, rounded to what is folded in: the average of floats
  kElement,  // an element in the low bytes of `factor`: a scaled sum
  kInMemory  // the same, read at the address `factor`
};

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

/// The same of a node of a tree, with the bits that it would have in memory.
template <types::DataType kType, types::ReduceOp kOp, class Wide>
TUTTI_BOTH Wide joined(Wide left, Wide right) {
  using E = FoldElement<kType>;
  const Wide wide = combined<kOp>(left, right);
  return types::Element<kType>::kParts == 1 ? wide : E::widen(E::narrow(wide));
}

/// By what contributions are multiplied before a fold, and its result is divided behind it.
template <types::DataType kType, types::ReduceOp kOp>
class FoldFactors {
  using E = FoldElement<kType>;
  using Wide = typename E::Wide;

 public:
  static constexpr bool kScales = kOp == types::ReduceOp::kSum;

  TUTTI_BOTH FoldFactors(FactorIs factor_is, uint64_t factor, int64_t divisor)
      : divisor_(divisor), rounds_products_(factor_is != FactorIs::kDouble) {
    if constexpr (kScales) factor_ = factor_of(factor_is, factor);
  }

  // A contribution to a scaled sum has the bits that it would have in memory; an average is rounded
  // at the end.
  TUTTI_BOTH Wide scaled(typename E::Raw raw) const {
    const Wide product = combined<types::ReduceOp::kProd>(E::widen(raw), factor_);
    return rounds_products_ ? E::widen(E::narrow(product)) : product;
  }

  TUTTI_BOTH Wide divided(Wide value) const {
    if constexpr (kScales && std::is_integral_v<Wide>) {
      using Number = std::conditional_t<sizeof(Wide) == 8, Wide, int64_t>;
      const auto divisor = static_cast<Number>(divisor_);
      if (divisor != 1) return static_cast<Wide>(static_cast<Number>(value) / divisor);
    }
    return value;
  }

 private:
  static TUTTI_BOTH Wide factor_of(FactorIs factor_is, uint64_t factor) {
    if (factor_is == FactorIs::kInMemory) return E::widen(E::load(factor));
    if (factor_is == FactorIs::kElement) return E::widen(static_cast<typename E::Raw>(factor));
    if constexpr (std::is_floating_point_v<Wide>) {
      return static_cast<Wide>(std::bit_cast<double>(factor));
    } else {
      return Wide{1};
    }
  }

  Wide factor_{};
  int64_t divisor_;
  bool rounds_products_;
};

}  // namespace tutti::engines::cuda
