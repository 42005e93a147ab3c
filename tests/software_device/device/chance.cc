#include "tests/software_device/device/chance.h"

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "tests/software_device/device/settings.h"

namespace softdev {
namespace {

uint64_t seed_of_thread() {
  if (settings().seed == 0) return std::random_device{}();
  static std::atomic<uint64_t> threads{0};
  // Ranks that one parent forks differ, and are the same in the next run.
  const auto rank = static_cast<uint64_t>(getpid() - getppid());
  return static_cast<uint64_t>(settings().seed) * 1000003 + threads++ * 7919 + rank;
}

}  // namespace

std::mt19937_64& dice() {
  static thread_local std::mt19937_64 generator(seed_of_thread());
  return generator;
}

void stall() {
  const auto most = static_cast<uint64_t>(settings().skew_us);
  if (most > 0) usleep(static_cast<useconds_t>(dice()() % most));
}

void skew() {
  if (settings().skew_us == 0) return;
  static thread_local uint64_t left = 0;
  static thread_local bool slow = false;
  if (left == 0) {
    left = 1 + dice()() % 6;
    slow = dice()() % 2 == 0;
  }
  --left;
  if (slow) stall();
}

void Backoff::pause() {
  ++looks_;
  if (looks_ < 64) {
    sched_yield();
  } else {
    usleep(looks_ < 256 ? 20 : 100);
  }
}

}  // namespace softdev
