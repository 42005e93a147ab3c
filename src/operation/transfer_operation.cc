#include "src/operation/transfer_operation.h"

#include <algorithm>
#include <utility>

#include "src/comm/device_calls.h"
#include "src/operation/question.h"

namespace tutti::operation {

TransferOperation::TransferOperation(comm::Communicator& communicator,
                                     const exec::Transfer& transfer, const comm::Extras* extras)
    : OperationOf(communicator, extras), transfers_(transfer) {}

TransferOperation::TransferOperation(comm::Communicator& communicator,
                                     std::vector<exec::Transfer> transfers,
                                     const comm::Extras* extras)
    : OperationOf(communicator, extras), transfers_(std::move(transfers)) {}

std::span<const exec::Transfer> TransferOperation::transfers() const {
  if (const auto* single = std::get_if<exec::Transfer>(&transfers_)) return {single, 1};
  return std::get<std::vector<exec::Transfer>>(transfers_);
}

GroupPhase TransferOperation::phase(bool by_streams) const {
  return by_streams ? GroupPhase::kTransferOfStreams : GroupPhase::kTransfer;
}

bool TransferOperation::can_join(const Operation& later) const {
  return dynamic_cast<const TransferOperation*>(&later) != nullptr;
}

void TransferOperation::join(const Operation& later) {
  keep_options();
  const std::span<const exec::Transfer> more =
      static_cast<const TransferOperation&>(later).transfers();
  if (const auto* single = std::get_if<exec::Transfer>(&transfers_)) {
    transfers_ = std::vector<exec::Transfer>{*single};
  }
  auto& all = std::get<std::vector<exec::Transfer>>(transfers_);
  all.insert(all.end(), more.begin(), more.end());
  comm::CallOptions& own = *extras_.options;
  const comm::CallFrame& frame = communicator().frame();
  own.timeout_ns =
      std::min(frame.timeout_of(own.timeout_ns), frame.timeout_of(later.options().timeout_ns));
  own.priority = std::max(own.priority, later.options().priority);
}

std::vector<CallBuffer> TransferOperation::buffers() const {
  std::vector<CallBuffer> all;
  for (const exec::Transfer& transfer : transfers()) {
    all.push_back({.call = transfer.is_send ? "send" : "recv",
                   .name = "the buffer",
                   .memory = transfer.data,
                   .shares = {{0, transfer.bytes}},
                   .use = transfer.is_send ? BufferUse::kInput : BufferUse::kOutput,
                   .stream = all.size()});
  }
  return all;
}

void TransferOperation::move_buffer(size_t number, std::byte* memory) {
  if (auto* single = std::get_if<exec::Transfer>(&transfers_)) {
    single->data = memory;
  } else {
    std::get<std::vector<exec::Transfer>>(transfers_)[number].data = memory;
  }
}

Status TransferOperation::check() const {
  return exec::check_own_transfers(transfers(), communicator().rank());
}

Result<double> TransferOperation::predict_ns() {
  uint64_t sent = 0, received = 0;
  for (const exec::Transfer& transfer : transfers()) {
    (transfer.is_send ? sent : received) += transfer.bytes;
  }
  return communicator().collectives().planner().host().predict_ns(transfers().size(),
                                                                  std::max(sent, received));
}

std::string TransferOperation::explain() {
  std::string text;
  const comm::Membership& members = communicator().membership();
  for (const exec::Transfer& transfer : transfers()) {
    const bool is_near = members.peers()[transfer.peer].arena.valid();
    text += std::string(transfer.is_send ? "send" : "recv") + " of " +
            std::to_string(transfer.bytes / types::size_of(transfer.type)) + " " +
            types::name_of(transfer.type) + " on " + std::to_string(members.ranks()) + " ranks: ";
    text += is_near ? "in pieces of " + std::to_string(exec::PairChannel::kPieceBytes) +
                          " bytes through the arena of the sender"
                    : "as a message";
    text += ", over " + members.transports() + "\n";
  }
  return text + communicator().streams().explain(transfers(), options().engine);
}

Status TransferOperation::run() {
  return communicator().transfers().run(transfers(), options().timeout_ns);
}

uint64_t TransferOperation::queue() {
  comm::CallRecorder& labels = communicator().frame().labels();
  return labels.recorder().queue(labels.label(transfers()));
}

Status TransferOperation::begin(uint64_t ticket) {
  if (part_ != nullptr) {
    const trace::Label label = communicator().frame().labels().label(transfers());
    return communicator().transfers().begin(*part_, label, options().timeout_ns, ticket);
  }
  return communicator().transfers().begin(transfers(), options().timeout_ns, ticket);
}

plan::Progress TransferOperation::advance() { return communicator().transfers().advance(); }

Status TransferOperation::outcome() const { return communicator().transfers().outcome(); }

Status TransferOperation::unsupported_by_streams() const {
  return communicator().streams().unsupported_transfers(transfers(), options().engine);
}

Status TransferOperation::check_host_way() {
  if (crosses()) return {};
  return communicator().streams().check_host_way(
      {.operation = name(), .why = unsupported_by_streams(), .asked = options().engine});
}

Status TransferOperation::announce_host_way() {
  return communicator().streams().announce_host_way(transfers(), options().engine);
}

Status TransferOperation::check_streams(std::span<const exec::StreamPlace> where) const {
  comm::DeviceStreams& streams = communicator().streams();
  for (const exec::StreamPlace& one : where) {
    if (Status status = streams.check_place(one); !status.ok()) return status;
  }
  return check_streams_memory(streams.device(), buffers());
}

Result<StreamWork> TransferOperation::stream_work(std::span<const exec::StreamPlace> where) {
  if (Status status = check_streams(where); !status.ok()) return status;
  exec::StreamedTransfers call =
      communicator().streams().calls().call_of(transfers(), options().engine, where);
  call.call.deadline_ns = communicator().frame().deadline_of(options().timeout_ns);
  return StreamWork(std::move(call));
}

bool TransferOperation::crosses() const {
  return communicator().streams().objection_to_network(transfers(), options().engine).ok();
}

Result<std::shared_ptr<exec::HostStaging>> TransferOperation::cross(
    std::span<const exec::StreamPlace> where, std::function<void()> arrived) {
  if (Status status = check_streams(where); !status.ok()) return status;
  comm::DeviceStreams& streams = communicator().streams();
  comm::DeviceCalls& calls = streams.calls();
  comm::NetworkedTransfers call =
      calls.networked(calls.call_of(transfers(), options().engine, where),
                      communicator().frame().deadline_of(options().timeout_ns));
  const auto& pairs = call.part.bounced.pairs;
  auto staging = streams.cross(std::move(call.streamed), pairs, std::move(arrived));
  if (!staging.ok()) return staging.status();
  call.part.bounced.crossing = staging.value();
  call.part.bounced.find_late = [&calls] { return calls.find_late(); };
  part_ = std::make_shared<const comm::TransferPart>(std::move(call.part));
  return std::shared_ptr<exec::HostStaging>(std::move(staging).value());
}

namespace calls::transfer {

std::vector<std::string> names() { return {"send", "recv"}; }

std::string answer(const Question& question) {
  exec::Transfer transfer;
  transfer.peer = question.next_rank();
  transfer.is_send = question.call == "send";
  transfer.bytes = question.bytes();
  transfer.type = question.type;
  return TransferOperation(*question.communicator, transfer, nullptr).explain();
}

}  // namespace calls::transfer
}  // namespace tutti::operation
