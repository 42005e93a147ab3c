// One thread of the process that looks at calls on devices until their streams are past them. It
// sleeps while there are none.
//
// Threads: any, but of one of them watch() and forget() one after the other. Errors: kSystemError
// where there can be no thread.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/mutex.h"
#include "src/base/status.h"

namespace tutti::engines::streams {

/// Something whose streams may have to be let go on.
class Watched {
 public:
  virtual ~Watched() = default;
  /// Whether it has to be looked at again soon. Threads: any.
  virtual bool look() = 0;
  /// Whether it has to be looked at now and then, although nothing is under way that it knows of.
  virtual bool patrols() const { return false; }
};

class Watchdog {
 public:
  /// The one of this process; in a forked child a new one.
  static Watchdog& get();

  Status watch(Watched& one);
  /// When it returns, no look at it is under way; but for the one that calls it.
  void forget(Watched& one);
  /// A call was put into a stream, or runs again, or one has failed.
  void wake();

  /// A call that streams of `device` have waited in for a while, the oldest of a communicator;
  /// `whose` names it, and replaces it. Empty: there is none any more.
  void tell_oldest(const void* whose, const std::string& device, std::string call);
  /// One of another communicator on that device; empty: there is none.
  std::string other_oldest(const void* whose, const std::string& device);

 private:
  void loop();
  bool look_at_all() TUTTI_REQUIRES(mutex_);
  bool patrols() const TUTTI_REQUIRES(mutex_);

  struct OldestCall {
    std::string device, call;
  };

  Mutex mutex_;
  std::map<const void*, OldestCall> oldest_ TUTTI_GUARDED_BY(mutex_);
  std::condition_variable changed_;
  std::vector<Watched*> watched_ TUTTI_GUARDED_BY(mutex_);
  Watched* looked_at_ TUTTI_GUARDED_BY(mutex_) = nullptr;
  std::thread::id thread_ TUTTI_GUARDED_BY(mutex_);
  bool awake_ TUTTI_GUARDED_BY(mutex_) = false;
  bool runs_ TUTTI_GUARDED_BY(mutex_) = false;  // the thread
};

}  // namespace tutti::engines::streams
