// A piece of memory that all ranks of a measurement share: barrier, exchange of numbers, the
// group's id.
//
// It belongs to the measurement, not to what is measured: the same board serves Tutti and MPI, so
// that neither warms its own queues between timed loops.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
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
  /// Shared with threads, and with processes forked later.
  explicit Board(int ranks);
  /// Shared by name: one rank creates it, the others open it, and then the creator unlinks the
  /// name.
  enum class Access { kCreate, kOpen };
  Board(int ranks, const std::string& name, Access access);
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  void unlink() const;

  int ranks() const { return ranks_; }

  /// Waits for all ranks. Errors: PerfError once any rank has failed, so that nobody waits forever.
  void barrier();
  /// From any rank or the parent, at any time.
  void fail() noexcept;
  bool failed() const noexcept;

  /// Collective: every rank's value, by rank; their greatest; the sum.
  std::vector<double> exchange(int rank, double value);
  double max(int rank, double value);
  double sum(int rank, double value);

  /// Collective: the bytes of rank 0 on every rank.
  tuttiUniqueId share_id(int rank, const tuttiUniqueId& id);

  /// One rank's samples. Write your own; read the others' after a barrier.
  std::span<double> samples(int rank);

 private:
  struct Memory;
  struct Unmap {
    void operator()(Memory* memory) const;
  };
  static Memory* map(int file);

  int ranks_;
  int spins_;
  std::string name_;
  std::unique_ptr<Memory, Unmap> memory_;
};

}  // namespace tutti::perf
