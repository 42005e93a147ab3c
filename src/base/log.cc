#include "src/base/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <utility>

#include "src/base/host_name.h"
#include "src/base/setting_values.h"
#include "src/base/write_signals.h"

namespace tutti {
namespace {

/// Of local time, as it was when the process first asked. To ask takes a lock of the C library,
/// which in the child of a fork nobody may be left to give back; a child has its parent's answer.
long east_of_utc_s() {
  static const long seconds = [] {
    const time_t now = std::time(nullptr);
    tm local{};
    return localtime_r(&now, &local) != nullptr ? local.tm_gmtoff : 0L;
  }();
  return seconds;
}

/// "12:34:56.123456" of the wall clock: what people compare with other logs.
std::string time_of_day() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::chrono::hh_mm_ss time{std::chrono::seconds((now.tv_sec + east_of_utc_s()) % 86400)};
  return fmt::format("{:02}:{:02}:{:02}.{:06}", time.hours().count(), time.minutes().count(),
                     time.seconds().count(), now.tv_nsec / 1000);
}

std::string origin_of_file(const Config& config) { return origin_of(config, "TUTTI_LOG_FILE"); }

bool is_nccls(const Config& config) { return origin_of_file(config).starts_with("NCCL_"); }

Result<Fd> open_file(const Config& config) {
  constexpr mode_t kMode = 0644;
  const std::string path = expand_log_path(config.log_file);
  // Appending keeps the lines of several processes apart.
  Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode));
  if (file.valid()) return file;
  return errno_status(origin_of_file(config) + ": cannot open '" + path + "'");
}

}  // namespace

std::string expand_log_path(std::string_view pattern) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view two = pattern.substr(i, 2);
    if (two == "%h") {
      path += host_name();
      ++i;
    } else if (two == "%p") {
      path += std::to_string(getpid());
      ++i;
    } else {
      path += pattern[i];
    }
  }
  return path;
}

Logger::Logger(LogLevel level) : level_(level) { (void)east_of_utc_s(); }

Result<std::unique_ptr<Logger>> Logger::create(const Config& config) {
  auto logger = std::make_unique<Logger>(config.log_level);
  if (!config.log_file.empty()) {
    Result<Fd> file = open_file(config);
    if (file.ok()) {
      logger->file_ = std::move(file).value();
    } else if (is_nccls(config)) {  // it was not written for us
      logger->warning("{}; the log goes to the error output", file.status().message());
    } else {
      return file.status();
    }
  }
  for (const std::string& warning : config.warnings) logger->warning("{}", warning);
  return logger;
}

// Another thread may have been here when this process was forked: nobody waits.
bool Logger::said_as_error(std::string_view message) const {
  if (!mutex_.try_lock()) return false;
  const MutexLock lock(mutex_, std::adopt_lock);
  return std::any_of(errors_.begin(), errors_.end(), [&](const std::string& error) {
    return !error.empty() && message.ends_with(error);
  });
}

void Logger::remember(std::string_view error) {
  constexpr size_t kMost = 16;
  if (!mutex_.try_lock()) return;
  const MutexLock lock(mutex_, std::adopt_lock);
  if (errors_.size() == kMost) errors_.pop_front();
  errors_.emplace_back(error);
}

void Logger::error_with(std::string_view message, std::string_view more) {
  if (!enabled(LogLevel::kError)) return;
  remember(message);
  write_line(LogLevel::kError, fmt::format("{}; {}", message, more));
}

void Logger::write(LogLevel level, fmt::string_view format, fmt::format_args values) {
  if (!enabled(level)) return;
  const std::string message = fmt::vformat(format, values);
  if (level == LogLevel::kError) remember(message);
  write_line(level, message);
}

void Logger::write_line(LogLevel level, std::string_view message) const {
  std::string line = fmt::format("tutti {} {}:{} {} ", time_of_day(), host_name(), getpid(),
                                 log_level_name(level));
  const size_t message_at = line.size();
  line += message;
  // A message is one line: text from a peer must not forge another, nor move a terminal's cursor.
  std::replace_if(
      line.begin() + static_cast<std::ptrdiff_t>(message_at), line.end(),
      [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  line += '\n';
  (void)write_quietly(file_.valid() ? file_.get() : STDERR_FILENO, line);
}

}  // namespace tutti
