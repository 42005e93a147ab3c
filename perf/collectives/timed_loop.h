// The loop that is timed. Tutti and every peer run through this one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <span>

#include "perf/collectives/crew.h"

namespace tutti::perf {

inline double now_us() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

struct LoopShape {
  size_t iterations = 1;
  /// false, free-running: the clock is read around the loop, and a rank may run ahead as far as the
  /// collective lets it. true, stepped: an untimed barrier of the board before every iteration, and
  /// the clock is read around every call (some 25 ns of each time are the clock's).
  bool stepped = false;
  /// Only with `stepped`: called with the iteration before its barrier, untimed.
  std::function<void(size_t)> before_step = {};
  /// Receives the time of each iteration, as far as there is room. Reads the clock in every
  /// iteration.
  std::span<double> samples = {};
  /// Asks for LoopTime::queued_us: one more look at the clock wherever it is read.
  bool splits = false;
};

/// One rank's microseconds per iteration.
struct LoopTime {
  double us = 0;
  double queued_us = 0;  // only with LoopShape::splits: until the calls have returned
};

/// Times call(iteration), then finish(), which waits for what call queued. Collective: begins with
/// a barrier.
template <class Call, class Finish>
LoopTime timed_loop(const RankContext& context, const LoopShape& shape, Call&& call,
                    Finish&& finish) {
  const auto iterations = static_cast<double>(shape.iterations);
  context.board.barrier();
  if (!shape.stepped && shape.samples.empty()) {
    const double begin = now_us();
    for (size_t i = 0; i < shape.iterations; ++i) call(i);
    const double queued = shape.splits ? now_us() : begin;
    finish();
    return {(now_us() - begin) / iterations, (queued - begin) / iterations};
  }
  LoopTime total;
  for (size_t i = 0; i < shape.iterations; ++i) {
    if (shape.stepped) {
      if (shape.before_step) shape.before_step(i);
      context.board.barrier();
    }
    const double begin = now_us();
    call(i);
    const double queued = shape.splits ? now_us() : begin;
    finish();
    const double us = now_us() - begin;
    if (i < shape.samples.size()) shape.samples[i] = us;
    total.us += us;
    total.queued_us += queued - begin;
  }
  return {total.us / iterations, total.queued_us / iterations};
}

inline constexpr double kDefaultRoundUs = 2000;
inline constexpr size_t kMostIterations = size_t{1} << 20;

/// Collective: the number of iterations for which the slowest rank's loop takes at least
/// `round_us`; the same on every rank. Of `shape` only the mode counts.
template <class Call, class Finish>
size_t calibrate(const RankContext& context, double round_us, LoopShape shape, Call&& call,
                 Finish&& finish) {
  shape.samples = {};
  shape.iterations = 1;
  while (true) {
    const double own = timed_loop(context, shape, call, finish).us;
    const double us = std::max(context.board.max(context.rank, own), 1e-3);
    const double needed = 1.1 * round_us / us;
    const auto iterations = static_cast<size_t>(needed) + 1;
    if (us * static_cast<double>(shape.iterations) >= round_us) return shape.iterations;
    if (shape.iterations >= kMostIterations) return kMostIterations;
    // Grow step by step: the first, cold iterations say little about the later ones.
    shape.iterations = std::min(
        {std::max(iterations, shape.iterations + 1), shape.iterations * 16, kMostIterations});
  }
}

}  // namespace tutti::perf
