#include "tests/software_nccl/library/settings.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

namespace softnccl {
namespace {

void take(const char* name, long& value) {
  const char* const text = std::getenv(name);
  if (text != nullptr) value = std::strtol(text, nullptr, 10);
}

Settings read() {
  Settings read;
  take("SOFTNCCL_VERSION", read.version);
  take("SOFTNCCL_RANK", read.rank);
  take("SOFTNCCL_INIT_MS", read.init_ms);
  take("SOFTNCCL_INIT_RESULT", read.init_result);
  take("SOFTNCCL_CONFIG_RESULT", read.config_result);
  take("SOFTNCCL_LATE_MS", read.late_ms);
  take("SOFTNCCL_STUCK_AT", read.stuck_at);
  take("SOFTNCCL_ASYNC_AT", read.async_at);
  take("SOFTNCCL_LOSE_AT", read.lose_at);
  take("SOFTNCCL_MEMORY_KB", read.memory_kb);
  take("SOFTNCCL_SUSPEND_RESULT", read.suspend_result);
  take("SOFTNCCL_RESUME_RESULT", read.resume_result);
  if (const char* const file = std::getenv("SOFTNCCL_LOG"); file != nullptr) read.log = file;
  return read;
}

}  // namespace

const Settings& settings() {
  static const Settings* const known = new Settings(read());
  return *known;
}

void log(const std::string& line) {
  if (settings().log.empty()) return;
  const int file = open(settings().log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  const std::string whole = std::to_string(getpid()) + " " + line + "\n";
  const ssize_t written = write(file, whole.data(), whole.size());
  (void)written;
  close(file);
}

}  // namespace softnccl
