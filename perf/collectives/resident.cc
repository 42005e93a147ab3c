#include "perf/collectives/resident.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>

namespace tutti::perf {

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double all_pages = 0;
  double resident_pages = 0;
  if (!(file >> all_pages >> resident_pages)) return 0;
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::string byte_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB"};
  int unit = 0;
  while (unit < 3 && std::fabs(bytes) >= 1024) {
    bytes /= 1024;
    ++unit;
  }
  const int digits = std::fabs(bytes) < 10 ? 2 : std::fabs(bytes) < 100 ? 1 : 0;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s", digits, bytes, kUnits[unit]);
  return text;
}

}  // namespace tutti::perf
