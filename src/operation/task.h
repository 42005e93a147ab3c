// An operation that runs elsewhere or later than where it was called, with all that are told of its
// outcome.
//
// Owns: the operation. Threads: it belongs to one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/exec/staging.h"
#include "src/operation/completion.h"
#include "src/operation/operation.h"

namespace tutti::operation {

struct Task {
  struct TaskStream {
    std::shared_ptr<Completion> completion;
    const void* order = nullptr;  // tasks with equal ones that are not null keep their order
  };

  HeldOperation operation;
  int priority = 0;
  uint64_t ticket = 0;     // Operation::queue
  bool is_replay = false;  // of a graph: its streams have come, so it goes before what waits
  uint64_t group = 0;      // not 0: those of one group do not wait for each other's streams
  TaskStream stream;
  std::vector<TaskStream> more_streams;              // of transfers that a group has joined
  std::vector<std::shared_ptr<Completion>> handles;  // told too; counted when they were made
  // Of device streams: the work begins when all are open, and is told of when all are over.
  std::vector<std::shared_ptr<exec::Fence>> fences;

  comm::Communicator& communicator() const { return operation->communicator(); }
  /// Whether it keeps the order of this stream.
  bool is_on(const TaskStream& stream) const;
  /// Gives the task its place in line, and counts it where its outcome will be told. Takes no
  /// memory.
  void announce();
  /// The work's end, to the handles. Without announce(): it will not run.
  void tell(const Status& status) const;
  void finish(const Status& status);
  /// Whether it need not wait for a stream of a device any more.
  bool may_begin() const;
  /// The work is done: what its streams have behind it goes on.
  void release() const;
  /// They are past what the work left for them.
  bool is_over() const;
  /// Hands the work to the communicator.
  Status begin();
};

}  // namespace tutti::operation
