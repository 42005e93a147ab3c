#include "src/operation/access_operation.h"

namespace tutti::operation {

using Kind = comm::Access::Kind;

GroupPhase AccessOperation::phase(Runner) const {
  return access_.kind == Kind::kWaitSignal ? GroupPhase::kWait : GroupPhase::kAccess;
}

std::vector<CallBuffer> AccessOperation::buffers() const {
  if (access_.bytes == 0) return {};
  return {{.call = name(),
           .name = "the local buffer",
           .memory = access_.local,
           .shares = {{0, access_.bytes}},
           .use = BufferUse::kLocal}};
}

Result<double> AccessOperation::predict_ns() {
  return communicator().collectives().planner().host().predict_ns(1, access_.bytes);
}

std::string AccessOperation::explain() {
  const comm::Membership& members = communicator().membership();
  const bool is_near = members.peers()[access_.peer].arena.valid();
  return name() + " of " + std::to_string(access_.bytes) + " bytes on " +
         std::to_string(members.ranks()) +
         " ranks: " + (is_near ? "by the caller, in the memory of the window" : "as messages") +
         ", over " + members.transports() + "\n";
}

Status AccessOperation::run() {
  return communicator().accesses().run(access_, options().timeout_ns);
}

uint64_t AccessOperation::queue() {
  comm::CallRecorder& labels = communicator().frame().labels();
  return labels.recorder().queue(labels.label(access_));
}

Status AccessOperation::begin(uint64_t ticket) {
  return communicator().accesses().begin(access_, options().timeout_ns, ticket);
}

plan::Progress AccessOperation::advance() { return communicator().accesses().advance(); }

Status AccessOperation::outcome() const { return communicator().accesses().outcome(); }

}  // namespace tutti::operation
