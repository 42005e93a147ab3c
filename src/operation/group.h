// The operations that a group holds until its end, and what is done with all of them there; and a
// single one on a stream, which is no group.
//
// Owns: its members. Threads: the caller's, from start() on also the engine's. Errors: of prepare()
// nothing has run. Whatever happens, the handles of all members are told.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/operation/placed_operation.h"
#include "src/operation/stream_turns.h"
#include "src/operation/task_scheduler.h"

namespace tutti::operation {

class OperationGroup {
 public:
  bool empty() const { return members_.empty(); }
  bool operates_on(const comm::Communicator& communicator) const;
  bool waits_for(const std::shared_ptr<Completion>& handle) const;
  /// Where the operations on BLOCKING streams are told.
  const std::shared_ptr<Completion>& blocking();
  /// Takes it, with its options as they are now. Transfers of one communicator become one member.
  /// Where there is no memory this throws, and it is as it was.
  void add(PlacedOperation& member);
  /// Nothing will run.
  void tell(const Status& status) const;
  /// How long all should take; nothing runs, and nothing is queued on their communicators.
  Status predict(uint64_t& nanoseconds);

  /// Once, before start(). An error: the handles are told.
  Status prepare(const StreamThread& thread);
  /// Since prepare(): in the caller's thread.
  bool is_driven_here() const { return engine_ == nullptr; }
  /// How many handles are told, at most.
  size_t handles() const;
  /// Whether finish() waits for another thread.
  bool waits() const { return engine_ != nullptr && blocking_ != nullptr; }
  /// Puts what streams get, and announces the rest: from here on every operation counts as queued.
  void start(const StreamThread& thread);
  /// Until what is to be waited for is done. The first error.
  Status finish();

 private:
  Status decide(const StreamThread& thread);
  void order();
  bool needs_engine() const;
  void queue();
  void drive();

  std::vector<PlacedOperation> members_;  // since prepare(): those that the host runs
  std::vector<PlacedOperation> by_streams_, captured_;
  StreamTurns turns_;
  std::shared_ptr<Completion> blocking_;  // null: none
  StreamEngine* engine_ = nullptr;        // null: driven here
  std::vector<Task> tasks_;
  std::optional<TaskScheduler> scheduler_;
  Status started_;
};

/// One on a stream of a device, or of a communicator that graphs may run: puts it there, or queues
/// it. Waits for a BLOCKING one. Its handle is told.
Status run_alone(PlacedOperation& member, const StreamThread& thread);

}  // namespace tutti::operation
