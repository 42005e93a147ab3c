#include "perf/collectives/progress.h"

#include <unistd.h>

#include <cstdio>

namespace tutti::perf {
namespace {

constexpr const char* kEraseLine = "\r\033[K";

}  // namespace

Progress::Progress(size_t total, bool wanted)
    : total_(total), shown_(wanted && isatty(STDERR_FILENO) == 1) {}

void Progress::show(size_t number, const std::string& what) {
  if (!shown_) return;
  std::string text = "case " + std::to_string(number);
  if (total_ > 0) text += " of " + std::to_string(total_);
  std::fprintf(stderr, "%s# %s: %s", kEraseLine, text.c_str(), what.c_str());
  std::fflush(stderr);
  on_screen_ = true;
}

void Progress::clear() {
  if (!on_screen_) return;
  std::fputs(kEraseLine, stderr);
  std::fflush(stderr);
  on_screen_ = false;
}

}  // namespace tutti::perf
