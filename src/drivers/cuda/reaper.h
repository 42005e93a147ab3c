// A thread of the process that lets go of what is of the driver's and may not be ended where its
// last user is: in a thread of the driver's, or where work of the device waits for a peer that
// waits for this very thread.
//
// Owns: what it was given, until it ends it. Threads: take() from any. Errors: none; where there
// can be no thread, what was given stays for the process's life.
#pragma once

#include <condition_variable>
#include <memory>
#include <vector>

#include "src/base/mutex.h"

namespace tutti::drivers::cuda {

class Reaper {
 public:
  using Kept = std::shared_ptr<const void>;

  static Reaper& get();
  /// Never throws, never waits for the driver.
  void take(std::unique_ptr<Kept> kept);

 private:
  void loop();

  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Kept>> taken_ TUTTI_GUARDED_BY(mutex_);
  bool runs_ TUTTI_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::drivers::cuda
