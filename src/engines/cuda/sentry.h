// One thread of the process that looks at calls on devices until their streams are past them. It
// sleeps while there are none.
//
// Threads: any, but of one rank watch() and forget() one after the other. Errors: kSystemError
// where there can be no thread.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/status.h"

namespace tutti::engines::cuda {

class CudaDeviceRank;

class Sentry {
 public:
  /// The one of this process; in a forked child a new one.
  static Sentry& get();

  Status watch(CudaDeviceRank& rank);
  /// When it returns, no look at it is under way; but for the one that calls it.
  void forget(CudaDeviceRank& rank);
  /// A call was put into a stream, or one has failed.
  void wake();

 private:
  void loop();
  bool look_at_all(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<CudaDeviceRank*> ranks_;   // under mutex_
  CudaDeviceRank* looked_at_ = nullptr;  // under mutex_
  std::thread::id thread_;               // under mutex_
  bool awake_ = false;                   // under mutex_
  bool runs_ = false;                    // under mutex_: the thread
};

}  // namespace tutti::engines::cuda
