// The callback of a request, and when it may run.
//
// Threads: a DeferredCallbacks belongs to the thread that made it. Errors: none.
#pragma once

#include <cstddef>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/base/status.h"

namespace tutti::api {

/// A user's function, and what it is called with.
struct Callback {
  tuttiRequestCallback_t function;
  void* context;
  tuttiRequest_t request;

  void call(const Status& outcome) const;
};

/// While it exists callbacks of this thread wait for its end: this thread drives communicators, and
/// callbacks may use them.
class DeferredCallbacks {
 public:
  /// At most so many will come.
  explicit DeferredCallbacks(size_t most);
  ~DeferredCallbacks();
  DeferredCallbacks(const DeferredCallbacks&) = delete;
  DeferredCallbacks& operator=(const DeferredCallbacks&) = delete;

 private:
  friend void call_or_defer(const Callback& callback, const Status& outcome);

  struct Waiting {
    Callback callback;
    Status outcome;
  };
  std::vector<Waiting> waiting_;
  DeferredCallbacks* const outer_;
};

/// Now, or at the end of the innermost DeferredCallbacks of this thread.
void call_or_defer(const Callback& callback, const Status& outcome);

}  // namespace tutti::api
