// Whether graphs may still run calls of a communicator: they may outlive it.
//
// Threads: any. Errors: none.
#pragma once

#include <memory>
#include <utility>

#include "src/base/mutex.h"
#include "src/base/status.h"
#include "src/comm/late_graphs.h"

namespace tutti::comm {

class Communicator;

class ReplayGate {
 public:
  ReplayGate(Communicator& communicator, std::shared_ptr<LateGraphs> late)
      : communicator_(&communicator), late_(std::move(late)) {}
  /// From now on no run begins; those that have begun are pending.
  void close() {
    const MutexLock lock(mutex_);
    communicator_ = nullptr;
  }
  /// Calls it with the communicator, which does not end meanwhile; not if the gate is closed, which
  /// the log is told.
  template <class Body>
  Status pass(Body body) {
    const MutexLock lock(mutex_);
    if (communicator_ != nullptr) return body(*communicator_);
    late_->tell();
    return {};
  }

 private:
  Mutex mutex_;
  Communicator* communicator_ TUTTI_GUARDED_BY(mutex_);  // null: closed
  const std::shared_ptr<LateGraphs> late_;
};

}  // namespace tutti::comm
