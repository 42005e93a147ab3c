// Many threads tell one that sleeps which ranks there is something to hear of.
//
// Threads: ring() any, also under links' locks; answer() one at a time. Errors: open() says what
// the kernel lacks; nothing else fails or takes memory.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "src/base/io.h"
#include "src/base/status.h"

namespace tutti::diagnosis {

class Bell {
 public:
  explicit Bell(int ranks);
  /// Rings are kept before it is open, too, but wake nobody.
  Status open();

  /// Readable while somebody has rung.
  int fd() const { return fd_.get(); }
  /// However often a rank rings, it is there once until it is answered.
  void ring(int rank);
  /// The ranks that have rung since the last answer, in this order. Valid until the next call.
  std::span<const int> answer();

 private:
  Fd fd_;
  std::vector<int> answered_;

  std::mutex mutex_;               // nothing is called under it
  std::vector<int> rung_;          // under mutex_
  std::vector<uint8_t> has_rung_;  // under mutex_, by rank
};

}  // namespace tutti::diagnosis
