// The works that a communicator runs, one at a time: a collective, sends and receives, or an access
// to a window. Each kind begins in its own way; from then on whoever drives them treats them alike.
#pragma once

#include "src/base/status.h"
#include "src/plan/walk.h"

namespace tutti::comm {

class Work {
 public:
  virtual ~Work() = default;
  /// Never waits. kDone also after a failure.
  virtual plan::Progress advance() = 0;
  /// Of a work that is done. It may fail though the communicator does not: an access outside a
  /// window, a call that no algorithm can run.
  virtual Status outcome() const = 0;
};

}  // namespace tutti::comm
