#include "src/comm/count_view.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace tutti::comm {
namespace {

// All vectors of a view in one order.
constexpr std::array<const uint64_t * CountView::*, 4> kVectors = {
    &CountView::send_counts, &CountView::send_offsets, &CountView::recv_counts,
    &CountView::recv_offsets};

std::vector<uint64_t> placed(const CountView& view, const uint64_t* counts,
                             const uint64_t* offsets) {
  if (offsets != nullptr) return {offsets, offsets + view.ranks};
  std::vector<uint64_t> packed(view.ranks, 0);
  std::partial_sum(counts, counts + view.ranks - 1, packed.begin() + 1);
  return packed;
}

}  // namespace

bool same(const CountView& a, const CountView& b) {
  return a.ranks == b.ranks && std::ranges::all_of(kVectors, [&](auto vector) {
           const uint64_t* x = a.*vector;
           const uint64_t* y = b.*vector;
           if (x == nullptr || y == nullptr) return x == y;
           return std::equal(x, x + a.ranks, y);
         });
}

uint64_t hash_of(const CountView& view) {
  uint64_t hash = view.ranks;
  for (auto vector : kVectors) {
    hash = hash * 0x9e3779b97f4a7c15u + 1;
    if (view.*vector == nullptr) continue;
    for (uint64_t entry : view.span(view.*vector)) {
      hash = (hash ^ entry) * 0xc2b2ae3d27d4eb4fu;
      hash ^= hash >> 29;
    }
  }
  return hash;
}

uint64_t offset_of(const CountView& view, const uint64_t* counts, const uint64_t* offsets,
                   uint32_t index) {
  if (offsets != nullptr) return offsets[index];
  const auto before = view.span(counts).first(index);
  return std::accumulate(before.begin(), before.end(), uint64_t{0});
}

bool is_packed(const CountView& view, const uint64_t* counts, const uint64_t* offsets) {
  return offsets == nullptr ||
         std::ranges::equal(view.span(offsets), placed(view, counts, nullptr));
}

uint64_t input_elements_of(const CountView& view, int rank) {
  if (view.send_counts == nullptr) return view.public_counts()[rank];
  return offset_of(view, view.send_counts, nullptr, view.ranks);
}

uint64_t longest_of(const CountView& view) {
  uint64_t longest = 0;
  for (const uint64_t* counts : {view.send_counts, view.recv_counts}) {
    if (counts != nullptr) longest = std::max(longest, std::ranges::max(view.span(counts)));
  }
  return longest;
}

uint64_t most_in_a_share(types::DataType type, uint32_t ranks) {
  constexpr uint64_t kAddressSpace = uint64_t{1} << 56;  // the largest there is
  return kAddressSpace / types::size_of(type) / ranks;
}

KeptCounts::KeptCounts(const CountView& view) : view_(view) {
  entries_ = std::make_shared<uint64_t[]>(kVectors.size() * view.ranks);
  uint64_t* next = entries_.get();
  for (auto vector : kVectors) {
    if (view.*vector == nullptr) continue;
    view_.*vector = next;
    next = std::ranges::copy(view.span(view.*vector), next).out;
  }
}

schedule::CountVectors vectors_of(const CountView& view, int rank, uint64_t longest) {
  schedule::CountVectors vectors;
  vectors.longest = longest;
  const auto own = static_cast<size_t>(rank);
  const auto fill = [&](const uint64_t* counts, const uint64_t* offsets, auto& sizes,
                        auto& places) {
    if (counts == nullptr) {  // a buffer of one share
      sizes = {view.public_counts()[own]};
      places = {0};
    } else {
      sizes = {counts, counts + view.ranks};
      places = placed(view, counts, offsets);
    }
  };
  fill(view.send_counts, view.send_offsets, vectors.input, vectors.input_offsets);
  fill(view.recv_counts, view.recv_offsets, vectors.output, vectors.output_offsets);
  return vectors;
}

}  // namespace tutti::comm
