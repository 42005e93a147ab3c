// Why a group cannot go on, as its ranks tell each other: one word, in arenas (Counter::failed,
// Counter::lost) and in notes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tutti::diagnosis {

/// Why a rank gave up: another rank is the cause. If further ranks give up as a consequence, they
/// hand the cause on unchanged, so the last rank learns what the first one saw.
struct Cause {
  int rank = -1;     // -1: not known
  int witness = -1;  // the rank that found its own calls and those of `rank` to differ; -1: none

  bool known() const { return rank >= 0; }
  bool calls_differ() const { return known() && witness >= 0; }
  bool operator==(const Cause&) const = default;
};

/// Of one rank: its process is gone, or it gave up, with the cause (which may be itself).
struct Loss {
  int rank = -1;
  Cause cause;  // not known: it is gone

  bool is_gone() const { return !cause.known(); }
  /// Whether this loss explains more than another one of the same group. When two ranks have found
  /// that their calls differ, all others leave too; so that loss explains the ends of the others.
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
  /// Stores it into a word that several ranks write; the loss that explains more stays.
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
