// Chance and delay: what makes the software device an adversary.
#pragma once

#include <random>

namespace softdev {

/// Of the calling thread. With a seed, streams get the same numbers in each run.
std::mt19937_64& dice();

/// Sleeps if this thread is in one of its slow phases: it is slow for a few operations, then fast
/// for a few, so that ranks drift apart. Delays that are merely random would hide faults.
void skew();

/// Sleeps for a random part of the skew.
void stall();

/// Waits between two looks at something that another thread, process or stream will change.
class Backoff {
 public:
  void pause();

 private:
  int looks_ = 0;
};

}  // namespace softdev
