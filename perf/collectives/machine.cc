#include "perf/collectives/machine.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <thread>
#include <vector>

#include "perf/collectives/statistics.h"
#include "perf/collectives/timed_loop.h"

namespace tutti::perf {
namespace {

constexpr int kBursts = 200;
constexpr uint32_t kTripsPerBurst = 100;
constexpr uint32_t kTrips = kBursts * kTripsPerBurst;
// A thread that has lost its processor for a while must not turn 10 ms into minutes.
constexpr double kMostUs = 1e6;

struct alignas(64) SharedFlag {
  std::atomic<uint32_t> value{0};
};

std::vector<int> usable_processors() {
  cpu_set_t set;
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

void pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

bool await(const SharedFlag& flag, uint32_t value, const std::atomic<bool>& stop) {
  while (flag.value.load(std::memory_order_acquire) != value) {
    if (stop.load(std::memory_order_relaxed)) return false;
  }
  return true;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double used_by(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

std::optional<double> core_round_trip_ns() {
  const std::vector<int> processors = usable_processors();
  if (processors.size() < 2) return std::nullopt;
  SharedFlag there;
  SharedFlag back;
  alignas(64) std::atomic<bool> stop{false};
  std::thread echo([&] {
    pin(processors[1]);
    for (uint32_t i = 1; i <= kTrips && await(there, i, stop); ++i) {
      back.value.store(i, std::memory_order_release);
    }
  });
  std::vector<double> bursts;
  std::thread caller([&] {  // a thread, so that nobody else stays pinned
    pin(processors[0]);
    const double limit_us = now_us() + kMostUs;
    for (uint32_t trip = 1; trip <= kTrips && now_us() < limit_us;) {
      const double begin_us = now_us();
      for (uint32_t i = 0; i < kTripsPerBurst; ++i, ++trip) {
        there.value.store(trip, std::memory_order_release);
        await(back, trip, stop);
      }
      bursts.push_back((now_us() - begin_us) * 1e3 / kTripsPerBurst);
    }
    stop.store(true, std::memory_order_relaxed);
  });
  caller.join();
  echo.join();
  return median(bursts);
}

std::string core_distance_text(std::optional<double> round_trip_ns) {
  if (!round_trip_ns) return "one processor only";
  char text[64];
  std::snprintf(text, sizeof text, "%.0f ns", *round_trip_ns);
  return text;
}

ProcessorTime processor_time() {
  ProcessorTime time;
  std::ifstream file("/proc/stat");
  std::string label;
  file >> label;  // "cpu": the sum of all processors
  constexpr int kIdle = 3;
  constexpr int kWaitingForDevices = 4;
  constexpr int kStolen = 7;
  const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  double ticks = 0;
  for (int column = 0; column <= kStolen && file >> ticks; ++column) {
    const double part = ticks / ticks_per_second;
    time.total += part;
    if (column != kIdle && column != kWaitingForDevices) time.busy += part;
  }
  time.own = used_by(RUSAGE_SELF) + used_by(RUSAGE_CHILDREN);
  return time;
}

double share_of_others(const ProcessorTime& before, const ProcessorTime& after) {
  const double total = after.total - before.total;
  if (total <= 0) return 0;
  const double others = (after.busy - before.busy) - (after.own - before.own);
  return std::clamp(others / total, 0.0, 1.0);
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double all_pages = 0;
  double resident_pages = 0;
  if (!(file >> all_pages >> resident_pages)) return 0;
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace tutti::perf
