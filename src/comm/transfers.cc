#include "src/comm/transfers.h"

namespace tutti::comm {

void Transfers::name(uint64_t own_timeout_ns) {
  frame_.state().name_call(
      {nullptr, nullptr, 0, frame_.deadline_of(own_timeout_ns), "send/recv", false}, &pairs_);
}

Status Transfers::run(std::span<const exec::Transfer> transfers, uint64_t own_timeout_ns) {
  frame_.check_failures();
  name(own_timeout_ns);
  frame_.recorder().begin(frame_.labels().label(transfers), ++calls_, trace::Series::kTransfers);
  Status status = pairs_.run(transfers);
  if (status.ok()) [[likely]] {
    frame_.recorder().end();
  } else {
    frame_.conclude(status);
  }
  return status;
}

Status Transfers::begin(std::span<const exec::Transfer> transfers, uint64_t own_timeout_ns,
                        uint64_t ticket) {
  frame_.check_failures();
  frame_.recorder().begin_queued(ticket, frame_.labels().label(transfers), ++calls_,
                                 trace::Series::kTransfers);
  if (!frame_.status().ok()) return frame_.status();
  name(own_timeout_ns);
  pairs_.start(transfers);
  return {};
}

// Shares are a call of all ranks: it has a number, by which ranks are compared.
Status Transfers::begin(const TransferPart& part, const trace::Label& label,
                        uint64_t own_timeout_ns, uint64_t ticket) {
  frame_.check_failures();
  exec::CallState& state = frame_.state();
  if (part.shares_of) {
    frame_.recorder().begin_queued(ticket, label, state.calls() + 1);
  } else {
    frame_.recorder().begin_queued(ticket, label, ++calls_, trace::Series::kTransfers);
  }
  if (!frame_.status().ok()) return frame_.status();
  if (part.shares_of) {
    state.describe(*part.shares_of);
    exec::Call call = part.call;
    call.deadline_ns = frame_.deadline_of(own_timeout_ns);
    state.begin(call, &pairs_);
  } else {
    name(own_timeout_ns);
  }
  pairs_.start(part.bounced);
  return {};
}

}  // namespace tutti::comm
