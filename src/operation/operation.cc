#include "src/operation/operation.h"

namespace tutti::operation {

void Operation::keep_options() {
  if (!extras_.options) extras_.options = communicator_->collectives().planner().options();
}

bool Operation::can_join(const Operation&) const { return false; }

void Operation::join(const Operation&) {}

Status Operation::unsupported_by_streams() const {
  return Status::unsupported("calls of this kind do not go by streams");
}

Result<StreamWork> Operation::stream_work(std::span<const exec::StreamPlace>) {
  return Status::internal_error(name() + " was put into a stream, which cannot run it");
}

Result<std::shared_ptr<exec::HostStaging>> Operation::cross(std::span<const exec::StreamPlace>,
                                                            std::function<void()>) {
  return Status::internal_error(name() + " has no part for streams");
}

}  // namespace tutti::operation
