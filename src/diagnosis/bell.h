// Wakes one sleeping thread, and tells it from which ranks something has come. Many threads ring.
//
// Threads: ring() any, also under links' locks; answer() one at a time. Errors: open() says what
// the kernel lacks; nothing else fails or takes memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/io.h"
#include "src/base/mutex.h"
#include "src/base/status.h"

namespace tutti::diagnosis {

class Bell {
 public:
  explicit Bell(int ranks);
  /// Rings that come before it is open are kept, but wake no thread.
  Status open();

  /// Readable while a ring has not been answered.
  int fd() const { return fd_.get(); }
  /// A rank that rings several times before it is answered counts once.
  void ring(int rank);
  /// The ranks that have rung since the last answer, in this order. Valid until the next call.
  std::span<const int> answer();

 private:
  Fd fd_;
  std::vector<int> answered_;

  Mutex mutex_;  // nothing is called under it
  std::vector<int> rung_ TUTTI_GUARDED_BY(mutex_);
  std::vector<uint8_t> has_rung_ TUTTI_GUARDED_BY(mutex_);  // by rank
};

}  // namespace tutti::diagnosis
