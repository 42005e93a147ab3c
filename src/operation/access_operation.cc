#include "src/operation/access_operation.h"

#include <fmt/format.h>

#include "src/operation/question.h"

namespace tutti::operation {

using Kind = comm::Access::Kind;

GroupPhase AccessOperation::phase(bool) const {
  return access_.kind == Kind::kWaitSignal ? GroupPhase::kWait : GroupPhase::kAccess;
}

std::vector<CallBuffer> AccessOperation::buffers() const {
  if (access_.bytes == 0 || access_.by_stream) return {};
  return {{.call = name(),
           .name = "the local buffer",
           .memory = access_.local,
           .shares = {{0, access_.bytes}},
           .use = access_.kind == Kind::kGet ? BufferUse::kOutput : BufferUse::kInput}};
}

Result<exec::DeviceCopies> AccessOperation::stream_copies(bool captured) {
  if (!access_.by_stream) return exec::DeviceCopies{};
  const auto place = communicator().streams().device().place_of(access_.local);
  if (!place.ok()) return place.status();
  if (place.value() == exec::MemoryPlace::kHost) {
    return Status::unsupported(
        name() +
        ": the local buffer is pageable host memory, and the other end is the memory of a device: "
        "pin it (cudaHostAlloc, cudaHostRegister), or pass device memory");
  }
  return access_.window->copies_of(access_, captured);
}

Result<double> AccessOperation::predict_ns() {
  return communicator().collectives().planner().host().predict_ns(1, access_.bytes);
}

std::string AccessOperation::explain() {
  const comm::Membership& members = communicator().membership();
  const bool is_near = members.peers()[access_.peer].arena.valid();
  const bool waits = access_.kind == Kind::kWaitSignal;
  const char* const way =
      waits               ? "the peer's link or the peer itself raises a counter here"
      : access_.by_stream ? "by the stream, between memory of devices; the host sends the signal"
      : is_near           ? "by the caller, in the memory of the window"
                          : "as a message, which the peer's link carries out";
  std::string text = name();
  if (access_.bytes > 0) text += " of " + std::to_string(access_.bytes) + " bytes";
  text += " on " + std::to_string(members.ranks()) + " ranks: " + way;
  if (const Result<double> ns = predict_ns(); ns.ok() && !waits) {
    text += fmt::format(", predicted {:.3g} us", ns.value() / 1000);
  }
  return text + ", over " + members.transports() + "\n";
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

namespace calls::access {

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (int kind = 0; kind < comm::kAccessKinds; ++kind) {
    all.emplace_back(comm::name_of(static_cast<Kind>(kind)));
  }
  return all;
}

std::string answer(const Question& question) {
  comm::Access access;
  while (question.call != comm::name_of(access.kind)) {
    access.kind = static_cast<Kind>((static_cast<int>(access.kind) + 1) % comm::kAccessKinds);
  }
  access.peer = question.next_rank();
  const bool moves = access.kind == Kind::kPut || access.kind == Kind::kGet;
  access.bytes = moves ? question.bytes() : 0;
  return AccessOperation(*question.communicator, access).explain();
}

}  // namespace calls::access
}  // namespace tutti::operation
