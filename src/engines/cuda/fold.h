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

#include "src/engines/cuda/fold_element.h"

namespace tutti::engines::cuda {

inline constexpr uint32_t kMostFoldSources = 128;
inline constexpr uint32_t kMostFoldTargets = 8;
/// Of a block.
inline constexpr uint32_t kFoldThreads = 512;

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

/// A thread of a kernel.
template <types::DataType kType, types::ReduceOp kOp>
class FoldThread {
  using E = FoldElement<kType>;
  using Wide = typename E::Wide;
  static constexpr uint32_t kLanes = kFoldWordsBytes / E::kBytes;
  // Loads of a source that are under way at once.
  static constexpr uint32_t kAtOnce = E::kBytes == 1 ? 2 : 4;
  static constexpr bool kScales = FoldFactors<kType, kOp>::kScales;

 public:
  TUTTI_BOTH explicit FoldThread(const FoldParameters& given)
      : given_(given), factors_(given.factor_is, given.factor, given.divisor) {}

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

  TUTTI_BOTH bool is_scaled(uint32_t source) const {
    return kScales && (given_.scaled[source / 64] >> (source % 64) & 1) != 0;
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
      E::set_lane(words, lane, E::narrow(factors_.divided(wide[lane])));
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
        add<kCount>(source, loaded, folded, [this](auto raw) { return factors_.scaled(raw); });
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
      Wide node = is_scaled(source) ? factors_.scaled(raw) : E::widen(raw);
      bool carries = true;
      TUTTI_UNROLL
      for (uint32_t height = 0; height < kHeight; ++height) {
        const bool taken = (source >> height & 1) != 0;
        if (carries && taken) node = joined<kType, kOp>(pending[height], node);
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
      folded[0] = has_any ? joined<kType, kOp>(pending[height], folded[0]) : pending[height];
      has_any = true;
    }
    store<1>(at, folded);
  }

  const FoldParameters& given_;
  const FoldFactors<kType, kOp> factors_;
};

}  // namespace tutti::engines::cuda
