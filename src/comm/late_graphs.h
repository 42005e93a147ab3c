// Graphs that are launched although their calls are of a communicator, or of an epoch of one, that
// is over: they do nothing, which the user can hardly see. So the log says it, once.
//
// Lifetime: as long as graphs may run, which is longer than the communicator's. The log is the
// process's. Threads: any, also those of a device's driver: it waits for a line to be written.
#pragma once

#include <string>
#include <utility>

#include "src/base/log.h"
#include "src/base/mutex.h"

namespace tutti::comm {

class LateGraphs {
 public:
  explicit LateGraphs(Logger& log) : log_(log) {}
  /// From now on they are late; `text` is the warning. The first one holds.
  void begin(std::string text) {
    const MutexLock lock(mutex_);
    if (text_.empty()) text_ = std::move(text);
  }
  /// One has run.
  void tell() {
    const MutexLock lock(mutex_);
    if (text_.empty() || told_) return;
    told_ = true;
    log_.warning("{}", text_);
  }

 private:
  Logger& log_;
  Mutex mutex_;
  std::string text_ TUTTI_GUARDED_BY(mutex_);
  bool told_ TUTTI_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::comm
