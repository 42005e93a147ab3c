#include "src/engines/streams/call_comparison.h"

#include <fmt/format.h>

#include <utility>

namespace tutti::engines::streams {
namespace {

std::vector<exec::TransferLog::CalledEntry*> transfers_of(const std::vector<CallWords>& words) {
  std::vector<exec::TransferLog::CalledEntry*> entries;
  for (const CallWords& one : words) entries.push_back(one.transfers);
  return entries;
}

}  // namespace

CallComparison::CallComparison(ComparedRanks ranks)
    : ranks_(std::move(ranks)),
      rank_(static_cast<size_t>(ranks_.rank)),
      log_(ranks_.words[rank_].log),
      book_(transfers_of(ranks_.words), ranks_.rank, ranks_.pair_bytes, ranks_.name_of) {}

std::optional<CallDifference> CallComparison::announce(uint32_t signature,
                                                       const diagnosis::DescribedCall& call) {
  const MutexLock lock(mutex_);
  has_calls_.store(true, std::memory_order_release);
  ++number_;
  const auto number = static_cast<uint32_t>(number_);
  const uint64_t word = uint64_t{number} << 32 | signature;
  log_.begin(number, call);
  recent(rank_, number).store(word, std::memory_order_seq_cst);
  ranks_.words[rank_].last->store(word, std::memory_order_seq_cst);
  return find_in_last(2);
}

std::optional<CallDifference> CallComparison::announce(std::span<const exec::Transfer> transfers,
                                                       const exec::TransferBook::Manner& manner) {
  const MutexLock lock(mutex_);
  has_calls_.store(true, std::memory_order_release);
  auto found = book_.announce(transfers, manner);
  if (!found) return std::nullopt;
  return CallDifference{std::move(found->status), found->peer};
}

std::optional<CallDifference> CallComparison::find_recent() const {
  constexpr uint64_t kMost = 64;
  const MutexLock lock(mutex_);
  if (std::optional<CallDifference> found = find_in_last(kMost)) return found;
  auto found = book_.find_recent();
  if (!found) return std::nullopt;
  return CallDifference{std::move(found->status), found->peer};
}

bool CallComparison::awaits_peers() const {
  const MutexLock lock(mutex_);
  for (size_t rank = 0; number_ != 0 && rank < ranks_.words.size(); ++rank) {
    if (!has_made(rank, number_)) return true;
  }
  return book_.awaits_peers();
}

// The first one: those behind it may differ because of it.
std::optional<CallDifference> CallComparison::find_in_last(uint64_t most) const {
  for (uint64_t number = number_ > most ? number_ - most + 1 : 1; number <= number_; ++number) {
    if (auto found = find(static_cast<uint32_t>(number))) return found;
  }
  return std::nullopt;
}

// A peer that has not come to this call will compare.
std::optional<CallDifference> CallComparison::find(uint32_t number) const {
  const uint64_t word = recent(rank_, number).load(std::memory_order_relaxed);
  for (size_t peer = 0; peer < ranks_.words.size(); ++peer) {
    if (peer == rank_) continue;
    const uint64_t theirs = recent(peer, number).load(std::memory_order_seq_cst);
    if (theirs != word && theirs >> 32 == number) return describe(number, peer);
  }
  return std::nullopt;
}

CallDifference CallComparison::describe(uint32_t number, size_t peer) const {
  const std::string self = ranks_.name_of(ranks_.rank);
  const std::string other = ranks_.name_of(static_cast<int>(peer));
  const auto own_call = diagnosis::CallLog::find(ranks_.words[rank_].log, number);
  const auto its_call = diagnosis::CallLog::find(ranks_.words[peer].log, number);
  std::optional<std::string> text;
  if (own_call && its_call) text = diagnosis::compare_text(self, *own_call, other, *its_call);
  return {Status::invalid_usage(fmt::format(fmt::runtime(ranks_.call_text), number) + " differs: " +
                                text.value_or(self + " and " + other + " make different calls")),
          static_cast<int>(peer)};
}

uint64_t CallComparison::number() const {
  const MutexLock lock(mutex_);
  return number_;
}

uint32_t CallComparison::last_of(size_t rank) const {
  return static_cast<uint32_t>(ranks_.words[rank].last->load(std::memory_order_acquire) >> 32);
}

bool CallComparison::has_made(size_t rank, uint64_t number) const {
  return static_cast<int32_t>(last_of(rank) - static_cast<uint32_t>(number)) >= 0;
}

std::optional<diagnosis::DescribedCall> CallComparison::find_call(size_t rank,
                                                                  uint32_t signature) const {
  for (uint32_t place = 0; place < ranks_.places; ++place) {
    const uint64_t word = recent(rank, place).load(std::memory_order_acquire);
    const auto number = static_cast<uint32_t>(word >> 32);
    const bool is_it = number != 0 && static_cast<uint32_t>(word) == signature;
    if (is_it) return diagnosis::CallLog::find(ranks_.words[rank].log, number);
  }
  return std::nullopt;
}

std::optional<int> CallComparison::find_late(uint64_t number,
                                             std::span<const exec::Transfer> transfers) const {
  {
    const MutexLock lock(mutex_);
    if (const std::optional<int> late = book_.find_late(transfers)) return late;
  }
  for (size_t rank = 0; number != 0 && rank < ranks_.words.size(); ++rank) {
    if (!has_made(rank, number)) return static_cast<int>(rank);
  }
  return std::nullopt;
}

}  // namespace tutti::engines::streams
