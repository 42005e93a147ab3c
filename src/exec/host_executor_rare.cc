// The parts of HostExecutor that a healthy call on one host enters for no more than a comparison of
// signatures, and now and then a look at its deadline: streams, failures, mismatches.
#include "src/base/caught.h"
#include "src/base/clock.h"
#include "src/exec/host_executor.h"
#include "src/exec/stall.h"
#include "src/schedule/layout.h"

namespace tutti::exec {

using plan::Op;
using plan::OpCode;
using plan::Operand;

bool HostExecutor::poll_streams() {
  bool moved = false;
  for (Peer& peer : peers_) {
    if (peer.stream != nullptr && peer.stream->progress()) moved = true;
  }
  return moved;
}

bool HostExecutor::execute_stream(Lane& lane, uint32_t index, const Op& op) {
  const transport::ChannelId channel{options_.communicator, options_.epoch, index};
  if (op.code == OpCode::kStreamArrived) {
    waiting_for_ = op.peer;
    return peers_[op.peer].stream->received(lane.received[op.value]);
  }
  if (op.code == OpCode::kStreamSent) {
    const Lane& sender = lanes_[op.lane];
    if (sender.slice > lane.slice) return true;  // it waited for its sends when it closed the slice
    waiting_for_ = sender.sent_to[op.value];
    return peers_[waiting_for_].stream->sent(sender.sent[op.value]);
  }
  const bool sends = op.code == OpCode::kStreamSend;
  const uint32_t count = sends ? op.source_count : op.target_count;
  buffers_.clear();
  const_buffers_.clear();
  for (uint32_t i = 0; i < count; ++i) {
    set_piece(lane, plan_->lengths[op.lengths + i]);
    std::byte* memory = address(lane, plan_->operands[op.operands + i]);
    if (sends) {
      const_buffers_.push_back({memory, lane.piece_bytes});
    } else {
      buffers_.push_back({memory, lane.piece_bytes});
    }
  }
  transport::Stream& stream = *peers_[op.peer].stream;
  stall_->announce_call(op.peer, call_number_, log_.runs());
  if (sends) {
    lane.sent[op.value] = stream.send(channel, call_.far_signature, const_buffers_);
    lane.sent_to[op.value] = op.peer;
  } else {
    lane.received[op.value] = stream.receive(channel, call_.far_signature, buffers_);
  }
  return true;
}

void HostExecutor::announce_far() {
  call_.far_signature = far_chain_ = chained(far_chain_, call_.far_signature);
  stall_->entered(call_number_, far_chain_);
}

std::string Health::because_of(const Cause& cause) const {
  if (!cause.calls_differ()) return "because of " + name_of(cause.rank);
  return "because the calls of " + name_of(cause.rank) + " and " + name_of(cause.witness) +
         " differ";
}

void HostExecutor::fail(Status status) {
  const bool differ = status.code() == Code::kInvalidUsage;
  const auto peer = static_cast<int>(waiting_for_);
  fail(std::move(status), {peer, differ && peer != options_.rank ? options_.rank : -1});
}

void HostExecutor::fail(Status status, const Cause& cause) {
  if (!status_.ok()) return;
  if (options_.recorder != nullptr && options_.recorder->in_call()) {
    attempt([this] { tell_progress(); });
  }
  status_ = std::move(status);
  const Loss loss{options_.rank, cause};
  mine_.counter(0).failed.store(loss.word(), std::memory_order_release);
  if (!leaving_) tell(loss);
  const bool inside = mine_.guard().inside.load(std::memory_order_relaxed) != 0;
  if (!inside) close_buffers();  // else when the work in hand is done
}

void HostExecutor::end_leaving() {
  if (!std::exchange(leaving_, false)) return;
  const uint64_t failed = mine_.counter(0).failed.load(std::memory_order_relaxed);
  if (const auto loss = Loss::read(failed, peers_.size())) tell(*loss);
}

void HostExecutor::tell(const Loss& loss) {
  attempt([&] { stall_->leave(call_number_, loss); });
}

// A rank that returns with an error may free its buffers at once, while peers still read or write
// there. So it tells them to keep away, and waits for those who are at it: each looks again before
// the next piece, if it lives. Threads of this process live as long as this one; other processes
// reach buffers by mappings of their own, where patience is enough.
void HostExecutor::close_buffers() {
  if (!exposed_) return;
  exposed_ = false;
  const uint64_t mine = static_cast<uint64_t>(options_.rank + 1) << 32 | call_number_;
  for (uint32_t rank : domain_) {
    std::atomic<uint64_t>& closed = peers_[rank].arena.guard().closed;
    // As strong as a store: who finds it closed already looks at `inside` behind that, too.
    uint64_t before = closed.load(std::memory_order_seq_cst);
    // The first call that somebody left counts.
    while (before == 0 || static_cast<int32_t>(static_cast<uint32_t>(before) - call_number_) > 0) {
      if (closed.compare_exchange_weak(before, mine, std::memory_order_seq_cst)) break;
    }
  }
  const uint64_t until_ns = monotonic_ns() + kStretchPatienceNs;
  for (uint32_t rank : domain_) {
    const Peer& peer = peers_[rank];
    const bool thread = peer.link != nullptr && peer.link->capabilities().all_memory;
    Backoff backoff(options_.spins);
    while (peer.arena.guard().inside.load(std::memory_order_seq_cst) != 0) {
      if (!thread && monotonic_ns() > until_ns) break;
      backoff.pause();
    }
  }
}

LongWait HostExecutor::wait_at(uint32_t peer) const {
  LongWait wait{&call_, call_number_, transfers_, peer, 0, 0};
  if (plan_ == nullptr) return wait;
  while (wait.lane + 1 < plan_->lanes.size() && lanes_[wait.lane].slice == plan_->slices) {
    ++wait.lane;
  }
  const uint32_t op = lanes_[wait.lane].op;
  if (op < plan_->lanes[wait.lane].end) wait.step = plan_->ops[op].index;
  return wait;
}

void HostExecutor::check_rare() {
  if (!status_.ok()) return;
  spoke_ = true;
  if (Status status = stall_->check(wait_at(waiting_for_)); !status.ok()) {
    const Cause cause = stall_->cause();
    // A rank that others blame tells the third ones about the other side; one that finds the fault
    // in its own arguments does not.
    const bool own = cause.rank == options_.rank && !cause.calls_differ();
    const bool blamed = own && status.code() != Code::kInvalidArgument;
    if (!cause.known() || blamed) return fail(std::move(status));
    fail(std::move(status), cause);
  } else if (options_.recorder != nullptr && options_.recorder->lines_due(monotonic_ns())) {
    tell_progress();
  }
}

// It does not say that it waits, and looks at no peer: none is waited for.
void HostExecutor::check_while_moving() {
  if (!status_.ok()) return;
  const Cause self{options_.rank, -1};
  if (Status lost = health_.check(); !lost.ok()) {
    const Cause cause = health_.cause();
    return fail(std::move(lost), cause.known() ? cause : self);
  }
  if (monotonic_ns() <= call_.deadline_ns) return;
  fail(Status::timeout(std::string(call_.what) + " on " + health_.name_of(options_.rank) +
                       " passed its deadline while its data moved: give it more time"),
       self);
}

void HostExecutor::end_long_wait() {
  spoke_ = false;
  stall_->ended();
}

void HostExecutor::check_signature(uint32_t peer) {
  if (is_in_same_call(peer)) return;
  if (Status status = stall_->compare_calls(wait_at(peer), peer); !status.ok()) {
    fail(std::move(status), stall_->cause());
  }
}

}  // namespace tutti::exec
