#include "src/comm/accesses.h"

#include "src/diagnosis/stall.h"

namespace tutti::comm {

void Accesses::name(const Access& access, uint64_t own_timeout_ns) {
  access_ = access;
  frame_.state().name_call(
      {nullptr, nullptr, 0, frame_.deadline_of(own_timeout_ns), name_of(access.kind), false}, this);
}

Status Accesses::run(const Access& access, uint64_t own_timeout_ns) {
  frame_.check_failures();
  frame_.recorder().begin(frame_.labels().label(access), ++calls_, trace::Series::kOneSided);
  name(access, own_timeout_ns);
  (void)frame_.state().wait([this] { return advance(); });
  const Status status = outcome();
  frame_.conclude(status);
  return status;
}

Status Accesses::begin(const Access& access, uint64_t own_timeout_ns, uint64_t ticket) {
  frame_.check_failures();
  frame_.recorder().begin_queued(ticket, frame_.labels().label(access), ++calls_,
                                 trace::Series::kOneSided);
  if (!frame_.status().ok()) return frame_.status();
  name(access, own_timeout_ns);
  return {};
}

plan::Progress Accesses::advance() {
  if (!frame_.status().ok()) return plan::Progress::kDone;
  frame_.state().expect(access_.peer);
  const plan::Progress progress = access_.window->advance(access_);
  // A thread that waits for this call looks seldom while it moves.
  if (progress == plan::Progress::kMoved) frame_.state().check_rare();
  return progress;
}

Status Accesses::outcome() const {
  return frame_.status().ok() ? access_.problem : frame_.status();
}

void Accesses::tell_progress(trace::Recorder& recorder, const diagnosis::Stall& stall) const {
  if (recorder.open_lines(1) == 0) return;
  trace::ExchangeState exchange{.peer = access_.peer};
  exchange.sends = access_.kind == Access::Kind::kPut || access_.kind == Access::Kind::kSignal;
  exchange.bytes = access_.bytes;
  exchange.moved = access_.moved;
  exchange.messages = 1;
  stall.describe_peer(exchange);
  recorder.set_line(0, exchange);
}

}  // namespace tutti::comm
