#include "perf/collectives/machine_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace tutti::perf {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double used_by(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

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

}  // namespace tutti::perf
