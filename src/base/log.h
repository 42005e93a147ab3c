// One line per message to the error output or a file. Handed in; there is no global logger.
//
// Owns:    the log file.
// Threads: any; a line is written by one write(), so lines of several threads and processes do not
//          mix.
// Errors:  create() fails if the file cannot be opened; a message that cannot be written is
//          dropped.
#pragma once

#include <fmt/core.h>

#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "src/base/config.h"
#include "src/base/io.h"
#include "src/base/mutex.h"
#include "src/base/status.h"

namespace tutti {

class Logger {
 public:
  /// To the error output.
  explicit Logger(LogLevel level);

  /// Makes the logger that the configuration asks for, and logs the configuration's warnings.
  static Result<std::unique_ptr<Logger>> create(const Config& config);

  bool enabled(LogLevel level) const { return level <= level_ && level != LogLevel::kOff; }

  template <class... Values>
  void error(fmt::format_string<Values...> format, Values&&... values) {
    write(LogLevel::kError, format, fmt::make_format_args(values...));
  }
  /// "message; more", of which said_as_error() knows the message.
  void error_with(std::string_view message, std::string_view more);
  template <class... Values>
  void warning(fmt::format_string<Values...> format, Values&&... values) {
    write(LogLevel::kWarning, format, fmt::make_format_args(values...));
  }
  template <class... Values>
  void info(fmt::format_string<Values...> format, Values&&... values) {
    write(LogLevel::kInfo, format, fmt::make_format_args(values...));
  }

  /// Whether one of the last errors in the log was this, perhaps with less in front: a caller
  /// that logs what it is told by the library need not say it again.
  bool said_as_error(std::string_view message) const;

 private:
  void remember(std::string_view error);
  void write(LogLevel level, fmt::string_view format, fmt::format_args values);
  void write_line(LogLevel level, std::string_view message) const;

  LogLevel level_;
  Fd file_;  // none: the error output
  mutable Mutex mutex_;
  std::deque<std::string> errors_ TUTTI_GUARDED_BY(mutex_);  // the last few
};

/// The configured path with %h (host name) and %p (process id) filled in.
std::string expand_log_path(std::string_view pattern);

}  // namespace tutti
