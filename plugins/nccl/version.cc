#include "plugins/nccl/version.h"

#include <strings.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "plugins/nccl/abi.h"
#include "plugins/nccl/settings.h"
#include "tutti/plugin.h"

namespace tutti::nccl {
namespace {

constexpr char kDebug[] = "NCCL_DEBUG";

/// NCCL's level below warnings, which Tutti's log does not have; unless TUTTI_LOG says another.
bool is_asked_for() {
  Setting setting;
  const char* const level = std::getenv(kDebug);
  return level != nullptr && strcasecmp(level, "VERSION") == 0 && find_setting(kDebug, setting) &&
         std::string_view(setting.origin) == kDebug;
}

void log_version() {
  const int code = version_code();
  const std::string line = "NCCL version " + std::to_string(code / 10000) + "." +
                           std::to_string(code / 100 % 100) + "." + std::to_string(code % 100) +
                           " (libnccl.so.2 of Tutti " + std::to_string(TUTTI_MAJOR) + "." +
                           std::to_string(TUTTI_MINOR) + "." + std::to_string(TUTTI_PATCH) + ")";
  tuttiLog(is_asked_for() ? tuttiLogWarn : tuttiLogInfo, line.c_str());
}

}  // namespace

int version_code() {
  Setting setting;
  const bool known = find_setting("TUTTI_NCCL_VERSION", setting);
  return known ? std::stoi(setting.value) : NCCL_VERSION_CODE;
}

void tell_version() {
  // Nobody waits for who tells it: in the child of a fork that thread may be missing.
  // tidy: allow mutable (of the process, as the log is)
  static constinit std::atomic<bool> told{false};
  if (!told.exchange(true, std::memory_order_relaxed)) log_version();
}

}  // namespace tutti::nccl
