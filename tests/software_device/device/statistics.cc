#include "tests/software_device/device/statistics.h"

#include <unistd.h>

#include <cstdio>
#include <string>

namespace softdev {
namespace {

SoftdevStatistics counters{};

}  // namespace

void count(uint64_t SoftdevStatistics::*counter, int64_t change) {
  __atomic_fetch_add(&(counters.*counter), static_cast<uint64_t>(change), __ATOMIC_RELAXED);
}

SoftdevStatistics statistics() {
  SoftdevStatistics now{};
#define SOFTDEV_LOAD(name) now.name = __atomic_load_n(&counters.name, __ATOMIC_RELAXED);
  SOFTDEV_STATISTICS(SOFTDEV_LOAD)
#undef SOFTDEV_LOAD
  return now;
}

void print_statistics() {
  const SoftdevStatistics now = statistics();
  std::string line = "[software device " + std::to_string(getpid()) + "]";
#define SOFTDEV_PRINT(name) line += " " #name "=" + std::to_string(now.name);
  SOFTDEV_STATISTICS(SOFTDEV_PRINT)
#undef SOFTDEV_PRINT
  std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace softdev
