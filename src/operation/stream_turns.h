// The parts of operations that streams of devices get.
//
// One that its streams run by themselves is put there as a whole. One that goes by the host puts
// two points there, between which the host does its work, and a stream waits at the second one. In
// a group, turns follow each other by phase, then communicator, then call, which is the same on all
// ranks. The ranks of a communicator that this thread has take one turn together: a stream that
// waits for the others may share a hardware queue with theirs.
//
// Threads: the caller's. Errors: as said at each.
#pragma once

#include <memory>
#include <vector>

#include "src/operation/placed_operation.h"
#include "src/operation/staging.h"

namespace tutti::operation {

/// Puts an operation that its streams run into them, behind all calls of its communicator there.
/// `told`: of its end, also of an error. It counts as queued until the streams are past it.
Status put_in_stream(PlacedOperation& member, const std::vector<std::shared_ptr<Completion>>& told);

/// The part of an operation that its streams get. The operation outlives it.
class StreamTurn {
 public:
  explicit StreamTurn(PlacedOperation& member) : member_(&member), places_(member.places()) {}

  PlacedOperation& member() const { return *member_; }
  bool is_by_host() const { return member_->runner != Runner::kStream; }
  bool has_entered() const { return entered_; }
  /// Of one that goes by the host: makes room there. Nothing is in a stream after an error.
  Status stage();
  /// Then: its streams come to the first point.
  Status enter();
  /// And to the second one.
  Status leave();

 private:
  PlacedOperation* member_;
  Stagings stagings_;
  std::vector<exec::StreamPlace> places_;
  bool entered_ = false;
};
using StreamTurns = std::vector<StreamTurn>;

/// The turns of the members, in their order. Those by the host that come first of their
/// communicator enter. An error: nothing has run.
Result<StreamTurns> enter_streams(std::vector<PlacedOperation>& by_host,
                                  std::vector<PlacedOperation>& by_streams);
/// All that is left to be put into the streams, also if something of it fails. The first error: of
/// what goes by the host it fails the communicator. Tasks of that are the engine's already.
Status put_turns(StreamTurns& turns);

}  // namespace tutti::operation
