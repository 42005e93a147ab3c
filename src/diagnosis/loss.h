// Why a group cannot go on, as its ranks tell each other: one word, in arenas (Counter::failed,
// Counter::lost) and in notes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tutti::diagnosis {

/// The rank because of which another one gave up. A rank that gives up because of that one hands
/// the cause on unchanged, so the last rank to hear of it learns what the first one saw.
struct Cause {
  int rank = -1;     // -1: not known
  int witness = -1;  // its calls and those of `rank` differ; -1: it was something else

  bool known() const { return rank >= 0; }
  bool calls_differ() const { return known() && witness >= 0; }
  bool operator==(const Cause&) const = default;
};

/// A rank's process is gone, or it gave up because of another one (or of itself).
struct Loss {
  int rank = -1;
  Cause cause;  // not known: it is gone

  bool is_gone() const { return !cause.known(); }
  /// Of two losses of a group this one names more of what happened: who is gone, or gave up because
  /// somebody else is, may be one of many who left after two had found their calls to differ.
  bool says_more_than(const Loss& other) const {
    return cause.calls_differ() && !other.cause.calls_differ();
  }

  // Fields of a word; bootstrap::kMaxRanks and one more fit.
  static constexpr int kRankBits = 21;
  static constexpr uint64_t kMostRanks = uint64_t{1} << (kRankBits - 1);

  /// Never 0.
  uint64_t word() const {
    return field(rank) << 2 * kRankBits | field(cause.rank) << kRankBits | field(cause.witness);
  }
  static std::optional<Loss> read(uint64_t word, size_t ranks) {
    constexpr uint64_t kField = (uint64_t{1} << kRankBits) - 1;
    const uint64_t rank = word >> 2 * kRankBits, cause = word >> kRankBits & kField;
    const uint64_t witness = word & kField;
    if (rank == 0 || rank > ranks || cause > ranks || witness > ranks) return std::nullopt;
    return Loss{rank_of(rank), {rank_of(cause), rank_of(witness)}};
  }
  /// Into a word that others write, too: what says more stays.
  void tell(std::atomic<uint64_t>& target, size_t ranks) const {
    for (uint64_t before = target.load(std::memory_order_acquire);;) {
      const std::optional<Loss> known = read(before, ranks);
      if (known && !says_more_than(*known)) return;
      if (target.compare_exchange_weak(before, word(), std::memory_order_acq_rel)) return;
    }
  }
  bool operator==(const Loss&) const = default;

 private:
  static uint64_t field(int rank) { return static_cast<uint64_t>(rank + 1); }
  static int rank_of(uint64_t field) { return static_cast<int>(field) - 1; }
};

}  // namespace tutti::diagnosis
