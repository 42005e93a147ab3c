// An operation that has met its stream: from here on it is known what runs it.
//
// Owns: a copy of the operation. Threads: one. Errors: none has run anything.
#pragma once

#include <memory>
#include <span>
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

/// The runner of an operation on this stream, if nothing else of its communicator is queued. Equal
/// on all ranks where the stream is a device's.
Runner runner_of(const Operation& operation, const CallStream& stream);

class PlacedOperation {
 public:
  /// `handle`: told of the outcome, and counted from here on; may be null.
  PlacedOperation(const Operation& operation, const CallStream& stream,
                  const std::shared_ptr<Completion>& handle);

  /// Where its streams are, and whether it may run as it is, by what its options ask for.
  Status prepare();
  Status check();
  /// Of its streams of devices, without repetition.
  std::vector<exec::StreamPlace> places() const;
  bool is_captured() const;
  /// Of its transfers, in order; of other operations, one.
  std::span<const CallStream> streams() const {
    return more_.empty() ? std::span(&first_, 1) : std::span(more_);
  }
  /// Takes the memory for so many more.
  void reserve_streams(size_t more);
  void add_streams(std::span<const CallStream> later);

  comm::Communicator* communicator;
  Task task;
  Runner runner;
  // Streams do it, or their part of it: of the transfers of one group some may be with other hosts.
  bool by_streams;
  GroupPhase phase;
  size_t index = 0;  // in a group: among those of its communicator and phase

 private:
  std::span<CallStream> own_streams();

  CallStream first_;
  std::vector<CallStream> more_;  // of several: all of them
};

}  // namespace tutti::operation
