// The board that the ranks of a measurement share beside the measured library: a barrier, and an
// exchange of small values.
//
// It belongs to the measurement: the same board serves Tutti and MPI, so that neither warms its own
// queues between timed loops. Where this program starts the ranks it is a piece of memory; under a
// launcher it is a communicator of its own.
//
// Errors: PerfError. Threads: a board in memory serves every rank that holds it; a board that is a
// communicator serves the rank that made it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tutti/tutti.h"

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
  Board() = default;
  virtual ~Board() = default;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Waits for all ranks.
  /// Errors: PerfError once any rank has failed, so that nobody waits forever.
  virtual void barrier() = 0;
  /// From any rank or the parent, at any time.
  virtual void fail() noexcept = 0;
  virtual bool failed() const noexcept = 0;
  /// Collective: the words of all ranks, one rank's behind the other's. Every rank has equally
  /// many, at most kMaxSamples.
  virtual std::vector<uint64_t> gather(int rank, std::span<const uint64_t> own) = 0;

  /// Collective: every rank's value, by rank.
  template <class Value>
  std::vector<Value> exchange(int rank, const Value& own) {
    static_assert(std::is_trivially_copyable_v<Value>);
    uint64_t words[(sizeof own + sizeof(uint64_t) - 1) / sizeof(uint64_t)] = {};
    std::memcpy(words, &own, sizeof own);
    const std::vector<uint64_t> all = gather(rank, words);
    std::vector<Value> values(all.size() / std::size(words));
    for (size_t i = 0; i < values.size(); ++i) {
      std::memcpy(static_cast<void*>(&values[i]), &all[i * std::size(words)], sizeof(Value));
    }
    return values;
  }
  /// Collective: every rank's text, by rank; what is longer than 255 bytes is cut off.
  std::vector<std::string> exchange_texts(int rank, const std::string& own);
  /// Collective: the greatest of the ranks' values.
  double max(int rank, double own) {
    const std::vector<double> values = exchange(rank, own);
    return *std::max_element(values.begin(), values.end());
  }
  /// Collective: the sum of the ranks' values.
  double sum(int rank, double own) {
    const std::vector<double> values = exchange(rank, own);
    return std::accumulate(values.begin(), values.end(), 0.0);
  }
  /// Collective: every rank's samples, by rank; as gather().
  std::vector<std::vector<double>> gather_samples(int rank, std::span<const double> own);
};

/// A board in memory, which threads share, and processes that are forked later. With a `name`, the
/// memory of that name (shm_open), which is made if there is none yet: whoever chose the name takes
/// it away (shm_unlink) once all ranks have the board.
std::shared_ptr<Board> make_shared_board(int ranks, const std::string& name = "");

/// Collective: a board that is a communicator, for ranks of processes on any hosts. A board that
/// fails ends the communicator, so that the other ranks do not wait.
std::shared_ptr<Board> make_group_board(const tuttiUniqueId& id, int rank, int ranks);

}  // namespace tutti::perf
