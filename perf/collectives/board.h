// The board that the ranks of a measurement share beside the measured library: a barrier, and an
// exchange of small values.
//
// It belongs to the measurement: the same board serves Tutti and MPI, so that neither warms its own
// queues between timed loops. Where this program starts the ranks it is a piece of memory
// (shared_board.h); under a launcher a communicator of its own (group_board.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

namespace tutti::perf {

inline constexpr int kMaxRanks = 256;
inline constexpr size_t kMaxSamples = 4096;

/// Inside a loop that waits for another processor.
inline void relax_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Board {
 public:
  /// The bytes that one rank hands in at a time.
  static constexpr size_t kNoteBytes = 256;
  using Note = std::array<uint64_t, kNoteBytes / sizeof(uint64_t)>;

  Board() = default;
  virtual ~Board() = default;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  virtual int ranks() const = 0;

  /// Waits for all ranks.
  /// Errors: PerfError once any rank has failed, so that nobody waits forever.
  virtual void barrier() = 0;
  /// From any rank or the parent, at any time.
  virtual void fail() noexcept = 0;
  virtual bool failed() const noexcept = 0;

  /// Collective: every rank's note, by rank.
  virtual std::vector<Note> exchange_notes(int rank, const Note& own) = 0;
  /// Collective: every rank's samples, by rank. Every rank has equally many, at most kMaxSamples.
  virtual std::vector<std::vector<double>> gather_samples(int rank,
                                                          std::span<const double> own) = 0;

  /// Collective: every rank's value, by rank; their greatest; the sum.
  template <class Value>
  std::vector<Value> exchange(int rank, const Value& own) {
    static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) <= kNoteBytes);
    Note note{};
    std::memcpy(note.data(), &own, sizeof own);
    const std::vector<Note> notes = exchange_notes(rank, note);
    std::vector<Value> values(notes.size());
    for (size_t i = 0; i < notes.size(); ++i) {
      std::memcpy(static_cast<void*>(&values[i]), notes[i].data(), sizeof(Value));
    }
    return values;
  }
  double max(int rank, double own) {
    const std::vector<double> values = exchange(rank, own);
    return *std::max_element(values.begin(), values.end());
  }
  double sum(int rank, double own) {
    const std::vector<double> values = exchange(rank, own);
    return std::accumulate(values.begin(), values.end(), 0.0);
  }
};

}  // namespace tutti::perf
