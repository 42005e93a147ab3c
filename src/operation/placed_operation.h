// An operation that has met its stream: from here on it is known what runs it.
//
// Owns: a copy of the operation. Threads: one. Errors: none has run anything.
#pragma once

#include <memory>
#include <vector>

#include "src/operation/call_stream.h"
#include "src/operation/engine.h"
#include "src/operation/task.h"

namespace tutti::operation {

/// The process's part in operations that do not run in the caller's thread.
struct StreamThread {
  Result<StreamEngine*> (*find)();
  /// Until nothing queued or running on the communicator is left; not in a callback.
  Status (*drain)(const comm::Communicator& communicator);
};

/// The runner of an operation on this stream, if nothing else of its communicator is queued. Equal on
/// all ranks where the stream is a device's.
Runner runner_of(const Operation& operation, const CallStream& stream);

struct PlacedOperation {
  /// `handle`: told of the outcome, and counted from here on; may be null.
  PlacedOperation(const Operation& operation, const CallStream& stream,
                  const std::shared_ptr<Completion>& handle);

  /// Where its streams are, and whether it may run as it is, by what its options ask for.
  Status prepare();
  Status check();
  /// Of its streams of devices, without repetition.
  std::vector<exec::StreamPlace> places() const;
  bool is_captured() const;

  comm::Communicator* communicator;
  Task task;
  std::vector<CallStream> streams;  // of its transfers, in order; of other operations, one
  Runner runner;
  GroupPhase phase;
  size_t index = 0;  // in a group: among those of its communicator and phase
};

}  // namespace tutti::operation
