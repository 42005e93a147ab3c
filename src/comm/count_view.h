// The count vectors of a v-collective as its caller passed them.
//
// Units: elements. Ordering: entry r belongs to rank r. Lifetime: a view is of the caller's memory,
// which need only last until the call returns: queued calls keep a copy.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/schedule/layout.h"
#include "src/types/types.h"

namespace tutti::comm {

/// all_gather_v has no send vectors (its input is one share), reduce_scatter_v no recv vectors.
struct CountView {
  uint32_t ranks = 0;
  const uint64_t* send_counts = nullptr;
  const uint64_t* send_offsets = nullptr;  // null: packed in rank order
  const uint64_t* recv_counts = nullptr;
  const uint64_t* recv_offsets = nullptr;

  /// The vector whose entries are the sizes of all shares, where one is: then every rank knows all.
  const uint64_t* public_counts() const {
    if (send_counts == nullptr) return recv_counts;
    return recv_counts == nullptr ? send_counts : nullptr;
  }
  /// Every rank knows its own row and column only: what it sends to whom and gets from whom.
  bool is_private() const { return public_counts() == nullptr; }

  std::span<const uint64_t> span(const uint64_t* entries) const { return {entries, ranks}; }
};

bool same(const CountView& a, const CountView& b);
uint64_t hash_of(const CountView& view);

/// Where share `index` of the packed or placed buffer begins.
uint64_t offset_of(const CountView& view, const uint64_t* counts, const uint64_t* offsets,
                   uint32_t index);

/// The elements of the input of `rank` if it is packed.
uint64_t input_elements_of(const CountView& view, int rank);

/// Whether shares that begin there are packed in rank order.
bool is_packed(const CountView& view, const uint64_t* counts, const uint64_t* offsets);

/// The longest share that this rank knows of.
uint64_t longest_of(const CountView& view);

/// No share is longer: a share for each rank, or several, must be countable in bytes.
uint64_t most_in_a_share(types::DataType type, uint32_t ranks);

/// A copy that owns its entries, which copies of it share.
class KeptCounts {
 public:
  KeptCounts() = default;
  explicit KeptCounts(const CountView& view);

  const CountView& view() const { return view_; }

 private:
  std::shared_ptr<uint64_t[]> entries_;
  CountView view_;
};

/// The view as lowering takes it: the shares of `rank`.
schedule::CountVectors vectors_of(const CountView& view, int rank, uint64_t longest);

}  // namespace tutti::comm
