// Where the outcome of operations is collected.
//
// Owns: the first error. Threads: any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>

#include "src/base/mutex.h"
#include "src/base/status.h"

namespace tutti::operation {

/// Of a HOST stream, a group, a request.
class Completion {
 public:
  /// By the monotonic clock; 0: not yet, or never.
  struct Times {
    uint64_t began_ns = 0;
    uint64_t ended_ns = 0;
  };

  void add();
  void finish(const Status& status);
  /// All that was added runs from now on. Only of what is asked for its times.
  void begin(uint64_t now_ns);
  /// Until nothing added is unfinished; the first error since the last wait().
  Status wait();
  /// The same, and the error stays.
  Status outcome();
  /// Whether wait() would return at once. The error is left for it.
  bool is_done(Status& status);
  /// The same after waiting until `deadline_ns` at most.
  bool is_done_by(uint64_t deadline_ns, Status& status);
  /// Calls it when nothing added is unfinished: now, or later in the thread that finishes. Only one
  /// at a time: false if there is one already.
  bool call_back(std::function<void(const Status& outcome)> listener);
  Times times();
  /// As new. Nothing is unfinished.
  void reset();

 private:
  Mutex mutex_;
  std::condition_variable idle_;
  uint64_t open_ TUTTI_GUARDED_BY(mutex_) = 0;
  Status first_error_ TUTTI_GUARDED_BY(mutex_);
  Times times_ TUTTI_GUARDED_BY(mutex_);
  std::function<void(const Status&)> listener_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti::operation
