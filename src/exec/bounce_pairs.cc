#include "src/exec/bounce_pairs.h"

#include <algorithm>
#include <map>
#include <new>
#include <utility>

namespace tutti::exec {
namespace {

constexpr uint64_t kPairLine = 512;

constexpr uint64_t in_pair_lines(uint64_t bytes) {
  return (bytes + kPairLine - 1) / kPairLine * kPairLine;
}

}  // namespace

// Two slots for each of two directions with all ranks are 32 MiB then, at most.
uint64_t BouncePairs::piece_bytes(int ranks) {
  constexpr uint64_t kLeast = 64 << 10, kMost = 1 << 20, kOfAll = 8 << 20;
  uint64_t piece = kMost;
  while (piece > kLeast && piece * static_cast<uint64_t>(ranks) > kOfAll) piece /= 2;
  return piece;
}

BouncePairs::BouncePairs(std::span<const Transfer> transfers, int ranks) {
  const uint64_t piece = piece_bytes(ranks);
  std::map<std::pair<uint32_t, bool>, uint32_t> known;
  std::vector<uint64_t> pieces;
  for (const Transfer& transfer : transfers) {
    const auto next = static_cast<uint32_t>(directions_.size());
    const auto [found, is_new] = known.emplace(std::pair(transfer.peer, transfer.is_send), next);
    if (is_new) {
      directions_.push_back({transfer.peer, transfer.is_send});
      pieces.push_back(0);
    }
    of_transfers_.push_back(found->second);
    BounceDirection& direction = directions_[found->second];
    pieces[found->second] += (transfer.bytes + piece - 1) / piece;
    const uint64_t longest = std::min(in_pair_lines(transfer.bytes), piece);
    direction.slot_bytes = std::max(direction.slot_bytes, longest);
  }
  bytes_ = in_pair_lines(directions_.size() * sizeof(BounceDirectionWords));
  for (size_t i = 0; i < directions_.size(); ++i) {
    directions_[i].slots = std::min(kSlots, pieces[i]);
    directions_[i].place = bytes_;
    bytes_ += directions_[i].slots * directions_[i].slot_bytes;
  }
}

void BouncePairs::begin(std::byte* memory) const {
  for (uint32_t i = 0; i < directions_.size(); ++i) {
    new (&words(memory, i)) BounceDirectionWords{};
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void BouncePairs::let_go(std::byte* memory) const {
  for (uint32_t i = 0; i < directions_.size(); ++i) {
    words(memory, i).by_host.value.store(kBeyondAllMessages, std::memory_order_release);
  }
}

}  // namespace tutti::exec
