// Whether graphs may still run calls of a communicator: they may outlive it.
//
// Threads: any. Errors: none.
#pragma once

#include "src/base/mutex.h"
#include "src/base/status.h"

namespace tutti::comm {

class Communicator;

class ReplayGate {
 public:
  explicit ReplayGate(Communicator& communicator) : communicator_(&communicator) {}
  /// From now on no run begins; those that have begun are pending.
  void close() {
    const MutexLock lock(mutex_);
    communicator_ = nullptr;
  }
  /// Calls it with the communicator, which does not end meanwhile; not if the gate is closed.
  template <class Body>
  Status pass(Body body) {
    const MutexLock lock(mutex_);
    return communicator_ != nullptr ? body(*communicator_) : Status();
  }

 private:
  Mutex mutex_;
  Communicator* communicator_ TUTTI_GUARDED_BY(mutex_);  // null: closed
};

}  // namespace tutti::comm
