// The least an all_reduce of 8 bytes over shared memory can cost: written by hand, for one size
// only.
//
// Every rank publishes its two floats and a call number in one cache line and reads the lines of
// the others. No lock, no read-modify-write, no system call. Two buffers suffice: a rank writes a
// line of call k again in call k + 2, which it enters only after it has seen call k + 1 of every
// rank, and they published that after they had finished reading call k.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti::perf {

/// Flag and data travel together: a reader that sees the flag has the data with it. Two lines
/// apart, because some processors fetch lines in pairs.
struct alignas(128) OneShotLine {
  std::atomic<uint64_t> call;
  float value[2];
};

/// `lines[buffer * ranks + rank]`, zero at first; shared by all ranks.
class OneShot {
 public:
  static constexpr size_t line_count(int ranks) { return static_cast<size_t>(ranks) * 2; }

  OneShot(OneShotLine* lines, int rank, int ranks) : lines_(lines), rank_(rank), ranks_(ranks) {}

  /// The sum over all ranks, added in the order of ranks, so that every rank has the same bits.
  template <class Relax>
  void all_reduce(const float* send, float* recv, Relax&& relax) {
    OneShotLine* const buffer = lines_ + (++call_ & 1) * static_cast<size_t>(ranks_);
    OneShotLine& own = buffer[rank_];
    own.value[0] = send[0];
    own.value[1] = send[1];
    own.call.store(call_, std::memory_order_release);
    float first = 0;
    float second = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const OneShotLine& line = buffer[rank];
      // Not "!=": a line whose flag is raised beyond every call never waits (--self).
      while (line.call.load(std::memory_order_acquire) < call_) relax();
      first += line.value[0];
      second += line.value[1];
    }
    recv[0] = first;
    recv[1] = second;
  }

 private:
  OneShotLine* lines_;
  uint64_t call_ = 0;
  int rank_;
  int ranks_;
};

}  // namespace tutti::perf
