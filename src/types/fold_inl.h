// The kernels, for one instruction set: operations, folds in both orders, the walk over memory.
//
// Included once per instruction set (see kernels_int.cc), so the guard is Highway's toggle.
#if defined(TUTTI_TYPES_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_TYPES_FOLD_INL_H_
#undef TUTTI_TYPES_FOLD_INL_H_
#else
#define TUTTI_TYPES_FOLD_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cassert>

#include "src/types/kernels_impl.h"
#include "src/types/number.h"
#include "src/types/vector_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::types {
namespace HWY_NAMESPACE {

// ---- operations on accumulators ---------------------------------------------------------------
// All of them commute bit for bit (once with_one_nan has run), so two ranks that fold the same pair
// in different orders agree.

// Integers wrap: they are added and multiplied as unsigned numbers.
struct Sum {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    using D = hn::DFromV<V>;
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::Add(a, b);
    } else {
      const Bits<D> du;
      return hn::BitCast(D(), hn::Add(hn::BitCast(du, a), hn::BitCast(du, b)));
    }
  }
};

struct Prod {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    using D = hn::DFromV<V>;
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::Mul(a, b);
    } else {
      const Bits<D> du;
      return hn::BitCast(D(), multiplied(du, hn::BitCast(du, a), hn::BitCast(du, b)));
    }
  }

 private:
  template <class D>
  static HWY_INLINE hn::Vec<D> multiplied(D d, hn::Vec<D> a, hn::Vec<D> b) {
    if constexpr (sizeof(hn::TFromD<D>) > 1 || hn::MaxLanes(d) == 1) {
      return hn::Mul(a, b);
    } else {  // no processor multiplies bytes: even and odd ones in 16-bit lanes
      const hn::Repartition<uint16_t, D> d16;
      const auto a16 = hn::BitCast(d16, a);
      const auto b16 = hn::BitCast(d16, b);
      const auto even = hn::And(hn::Mul(a16, b16), hn::Set(d16, uint16_t{0xFF}));
      const auto odd = hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16));
      return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<8>(odd)));
    }
  }
};

// The larger of two floats: a NaN wins over every number, and +0 over -0. Equal numbers differ in
// the sign of a zero or not at all, so And gives +0 and Or gives -0 where there is one.
struct Max {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<hn::DFromV<V>>>()) {
      const V larger = hn::IfThenElse(hn::Gt(a, b), a, b);  // b where either is NaN
      const V settled = hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), larger);
      return hn::IfThenElse(hn::IsNaN(a), a, settled);
    } else {
      return hn::Max(a, b);
    }
  }
};

struct Min {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<hn::DFromV<V>>>()) {
      const V smaller = hn::IfThenElse(hn::Lt(a, b), a, b);
      const V settled = hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), smaller);
      return hn::IfThenElse(hn::IsNaN(a), a, settled);
    } else {
      return hn::Min(a, b);
    }
  }
};

struct BitAnd {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::And(a, b);
  }
};

struct BitOr {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Or(a, b);
  }
};

struct BitXor {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Xor(a, b);
  }
};

template <class Op, DataType kType, class D, size_t... kPart>
HWY_INLINE Wide<kType, D> combine(const Wide<kType, D>& a, const Wide<kType, D>& b,
                                  std::index_sequence<kPart...>) {
  return {{Op::apply(a.part[kPart], b.part[kPart])...}};
}

template <class Op, DataType kType, class D>
HWY_INLINE Wide<kType, D> combine(const Wide<kType, D>& a, const Wide<kType, D>& b) {
  return combine<Op>(a, b, kPartsOf<kType>);
}

// ---- folds: what becomes of one piece of all sources --------------------------------------------

// A number of sources known to the compiler, one target, nothing scaled: all in registers.
template <DataType kType, class Op, FoldOrder kOrder, size_t kSources>
class FixedFold {
 public:
  static constexpr DataType kElement = kType;

  explicit HWY_INLINE FixedFold(const FoldCall& call) : target_(call.targets[0]) {
    std::copy_n(call.sources, kSources, sources_);
  }

  template <class D, class P>
  HWY_INLINE hn::Vec<D> value(D d, P piece) const {
    return narrow<kType>(d, range<0, kSources>(d, piece));
  }

  template <class D, class P>
  HWY_INLINE void store(D d, hn::Vec<D> value, P piece, bool streaming) const {
    piece.store(d, value, target_, streaming);
  }

 private:
  // Both orders are the same recursion, cut at another place.
  template <size_t kBegin, size_t kEnd, class D, class P>
  HWY_INLINE Wide<kType, D> range(D d, P piece) const {
    constexpr size_t kSize = kEnd - kBegin;
    if constexpr (kSize == 1) {
      return widen<kType>(d, piece.load(d, sources_[kBegin]));
    } else {
      constexpr size_t kLeft = kOrder == FoldOrder::kTree ? std::bit_floor(kSize - 1) : kSize - 1;
      return combine<Op>(range<kBegin, kBegin + kLeft>(d, piece),
                         range<kBegin + kLeft, kEnd>(d, piece));
    }
  }

  const std::byte* sources_[kSources];
  std::byte* target_;
};

// Any number of sources and targets. In a sum, sources may be scaled and the result divided.
template <DataType kType, class Op, FoldOrder kOrder>
class AnyFold {
 public:
  static constexpr DataType kElement = kType;

  explicit HWY_INLINE AnyFold(const FoldCall& call)
      : call_(call), scale_(number_from<Number>(call.scale)) {
    assert(call.source_count >= 1 && call.source_count <= kMaxSources);
  }

  template <class D, class P>
  HWY_INLINE hn::Vec<D> value(D d, P piece) const {
    const Wide<kType, D> folded = kOrder == FoldOrder::kTree ? tree(d, piece) : list(d, piece);
    const hn::Vec<D> value = narrow<kType>(d, folded);
    if constexpr (kIsSum && std::is_integral_v<Number>) return divided(d, value);
    return value;
  }

  template <class D, class P>
  HWY_INLINE void store(D d, hn::Vec<D> value, P piece, bool streaming) const {
    for (uint32_t t = 0; t < call_.target_count; ++t) {
      piece.store(d, value, call_.targets[t], streaming);
    }
  }

 private:
  using Number = typename Element<kType>::Wide;
  static constexpr bool kIsSum = std::is_same_v<Op, Sum>;

  template <class D, class P>
  HWY_INLINE Wide<kType, D> source(D d, P piece, uint32_t index) const {
    const auto wide = widen<kType>(d, piece.load(d, call_.sources[index]));
    if constexpr (kIsSum) {
      const bool marked = call_.scaled != nullptr && call_.scaled[index / 64] >> (index % 64) & 1;
      if (marked) return scaled<D>(wide, kPartsOf<kType>);
    }
    return wide;
  }

  template <class D, size_t... kPart>
  HWY_INLINE Wide<kType, D> scaled(const Wide<kType, D>& wide,
                                   std::index_sequence<kPart...>) const {
    const WideTag<kType, D> dw;
    return {{Prod::apply(wide.part[kPart], hn::Set(dw, scale_))...}};
  }

  template <class D, class P>
  HWY_INLINE Wide<kType, D> list(D d, P piece) const {
    Wide<kType, D> folded = source(d, piece, 0);
    for (uint32_t s = 1; s < call_.source_count; ++s) {
      folded = combine<Op>(folded, source(d, piece, s));
    }
    return folded;
  }

  // A binary counter: after k sources, `pending` holds one complete subtree per set bit of k, and
  // adding a source carries as adding one does. The subtrees that are left at the end lack
  // partners. Where sources cost little, four at a time are added, as one subtree that stays in
  // registers.
  template <class D, class P>
  HWY_INLINE Wide<kType, D> tree(D d, P piece) const {
    Wide<kType, D> pending[std::bit_width(uint32_t{kMaxSources})];
    size_t height = 0;
    for (uint32_t s = 0, leaves; s < call_.source_count; s += leaves) {
      constexpr bool kFour = HWY_TARGET != HWY_SCALAR && Element<kType>::kParts < 4;
      leaves = kFour && call_.source_count - s >= 4 ? 4 : 1;
      Wide<kType, D> node = leaves == 4 ? four(d, piece, s) : source(d, piece, s);
      for (uint32_t carry = s / leaves; carry & 1; carry >>= 1) {
        node = combine_rounded(d, pending[--height], node);
      }
      pending[height++] = node;
    }
    Wide<kType, D> folded = pending[--height];
    while (height > 0) folded = combine_rounded(d, pending[--height], folded);
    return folded;
  }

  // A node of the tree has the bits it would have if another rank had stored and sent it.
  template <class D>
  HWY_INLINE Wide<kType, D> combine_rounded(D d, const Wide<kType, D>& a,
                                            const Wide<kType, D>& b) const {
    const Wide<kType, D> wide = combine<Op>(a, b);
    if constexpr (Element<kType>::kParts == 1) {
      return wide;
    } else {
      return widen<kType>(d, narrow<kType>(d, wide));
    }
  }

  template <class D, class P>
  HWY_INLINE Wide<kType, D> four(D d, P piece, uint32_t first) const {
    const auto pair = [&](uint32_t s) HWY_ATTR {
      return combine_rounded(d, source(d, piece, s), source(d, piece, s + 1));
    };
    return combine_rounded(d, pair(first), pair(first + 2));
  }

  template <class D>
  HWY_INLINE hn::Vec<D> divided(D d, hn::Vec<D> value) const {
    if (call_.divisor == 1) return value;
    alignas(HWY_MAX_BYTES) Number numbers[hn::MaxLanes(d)];
    hn::Store(value, d, numbers);
    divide(numbers, hn::MaxLanes(d), call_.divisor);
    return hn::Load(d, numbers);
  }

  const FoldCall& call_;
  const Number scale_;
};

// ---- the walk over memory -------------------------------------------------------------------

// An array of at least one vector, in whole vectors: the second one begins where the first target
// is aligned, and the last one ends where the array does. Neighbours may thus overlap; a vector is
// stored only after the next one was folded, so that this works in place as well.
template <class D, class Fold>
HWY_INLINE void walk(D d, size_t bytes, size_t to_alignment, bool streaming, const Fold& fold) {
  constexpr size_t kWidth = width_of(d);
  const size_t last = bytes - kWidth;
  size_t step = last >= 2 * kWidth ? to_alignment : kWidth;
  size_t at = 0;
  auto value = hn::Zero(d);
  for (size_t next = 0;; next = std::min(next + step, last)) {
    const auto next_value = fold.value(d, Piece{next});
    if (next != 0) {
      fold.store(d, value, Piece{at}, streaming);
      step = kWidth;
    }
    value = next_value;
    at = next;
    if (next == last) break;
  }
  fold.store(d, value, Piece{at}, streaming);
}

// Bytes from `place` to the next aligned element: at least one element, at most a vector.
template <size_t kWidth, size_t kSize>
HWY_INLINE size_t bytes_to_alignment(const std::byte* place) {
  const size_t bytes = (kWidth - reinterpret_cast<uintptr_t>(place) % kWidth) & ~(kSize - 1);
  return bytes == 0 ? kWidth : bytes;
}

// An array of less than one vector.
template <class Fold>
HWY_INLINE void run_short(const FoldCall& call, size_t bytes) {
  using Lane = typename Element<Fold::kElement>::Lane;
  const hn::CappedTag<Lane, ShortPiece::kMostBytes / sizeof(Lane)> d;
  if constexpr (width_of(d) > Element<Fold::kElement>::kSize) {
    const Fold fold(call);
    for (size_t at = 0; at < bytes; at += width_of(d)) {
      const ShortPiece piece{at, std::min(bytes - at, width_of(d))};
      fold.store(d, fold.value(d, piece), piece, false);
    }
  }
}

// Less than a vector is left to `ShortFold`, which may be smaller code for the same result.
template <class Fold, class ShortFold>
HWY_NOINLINE void run(const FoldCall& call, bool streaming) {
  using E = Element<Fold::kElement>;
  const hn::ScalableTag<typename E::Lane> d;
  constexpr size_t kWidth = width_of(d);
  const size_t bytes = call.count * E::kSize;
  if (bytes < kWidth) return run_short<ShortFold>(call, bytes);
  const size_t to_alignment = bytes_to_alignment<kWidth, E::kSize>(call.targets[0]);
  walk(d, bytes, to_alignment, streaming, Fold(call));
}

template <class Fold, class ShortFold>
void run_cached(const FoldCall& call) {
  run<Fold, ShortFold>(call, false);
}

template <class Fold, class ShortFold>
void run_streaming(const FoldCall& call) {
  const bool streaming = call.count * Element<Fold::kElement>::kSize >= kLeastStreamed;
  run<Fold, ShortFold>(call, streaming);
  if (streaming) hwy::FlushStream();
}

// ---- choice -----------------------------------------------------------------------------------

template <class Fold, class ShortFold>
FoldKernel kernel_of(const FoldKey& key) {
  return key.store == StoreHint::kStreaming ? run_streaming<Fold, ShortFold>
                                            : run_cached<Fold, ShortFold>;
}

// Only what is called often is compiled for its number of sources: the build has to be quick too.
template <DataType kGiven, class Op, FoldOrder kOrder>
FoldKernel find_in_order(const FoldKey& key) {
  using Any = AnyFold<kGiven, Op, kOrder>;
  if constexpr (HWY_TARGET != HWY_SCALAR && Element<kGiven>::kParts == 1) {
    constexpr FoldOrder kList = FoldOrder::kList;  // the same as a tree up to three sources
    constexpr DataType kType = std::is_same_v<Op, Sum> ? unsigned_of(kGiven) : kGiven;
    const uint32_t sources = key.target_count == 1 && !key.scaled ? key.source_count : 0;
    using Two = FixedFold<kType, Op, kList, 2>;
    if (sources == 2) return kernel_of<Two, Two>(key);
    if constexpr (std::is_same_v<Op, Sum>) {
      if (sources == 3) return kernel_of<FixedFold<kType, Op, kList, 3>, Any>(key);
      if (sources == 4) return kernel_of<FixedFold<kType, Op, kOrder, 4>, Any>(key);
      if (sources == 8) return kernel_of<FixedFold<kType, Op, kOrder, 8>, Any>(key);
    }
  }
  return kernel_of<Any, Any>(key);
}

template <DataType kType, class Op>
FoldKernel find_for_op(const FoldKey& key) {
  return key.order == FoldOrder::kTree ? find_in_order<kType, Op, FoldOrder::kTree>(key)
                                       : find_in_order<kType, Op, FoldOrder::kList>(key);
}

// The order of bitwise operations shows nowhere.
template <DataType kType, class Op>
FoldKernel find_for_bits(const FoldKey& key) {
  if constexpr (is_float(kType)) {
    return nullptr;
  } else {
    return find_in_order<unsigned_of(kType), Op, FoldOrder::kList>(key);
  }
}

template <DataType kType>
FoldKernel find_for_type(const FoldKey& key) {
  switch (key.op) {
    case ReduceOp::kSum:
    case ReduceOp::kScaledSum:
    case ReduceOp::kAvg:
      return find_for_op<kType, Sum>(key);
    case ReduceOp::kProd:
      return find_for_op<unsigned_of(kType), Prod>(key);
    case ReduceOp::kMax:
      return find_for_op<kType, Max>(key);
    case ReduceOp::kMin:
      return find_for_op<kType, Min>(key);
    case ReduceOp::kBitAnd:
      return find_for_bits<kType, BitAnd>(key);
    case ReduceOp::kBitOr:
      return find_for_bits<kType, BitOr>(key);
    case ReduceOp::kBitXor:
      return find_for_bits<kType, BitXor>(key);
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti::types
HWY_AFTER_NAMESPACE();

#endif  // per target
