// The parts of HostExecutor a healthy call on one host never enters: streams, failures, mismatches.
#include <algorithm>

#include "src/base/clock.h"
#include "src/exec/host_executor.h"
#include "src/schedule/layout.h"

namespace tutti::exec {
namespace {

constexpr uint64_t kPatienceNs = 300'000'000;

}  // namespace

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
  if (sends) {
    lane.sent[op.value] = stream.send(channel, call_.far_signature, const_buffers_);
    lane.sent_to[op.value] = op.peer;
  } else {
    lane.received[op.value] = stream.receive(channel, call_.far_signature, buffers_);
  }
  return true;
}

void HostExecutor::fail(Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  const uint32_t cause = blamed_ < 0 ? waiting_for_ : static_cast<uint32_t>(blamed_);
  mine_.counter(0).failed.store(cause + 1, std::memory_order_release);
  for (const Peer& peer : peers_) {
    if (peer.stream != nullptr) peer.link->hang_up();
  }
  if (!inside_) close_buffers();  // else when the work in hand is done
}

// A rank that returns with an error may free its buffers at once, while peers still read or write
// there. So it tells them to keep away, and waits for those who are at it: each is busy for one
// stretch of work without waiting, if it lives. Threads of this process live as long as this one;
// other processes reach buffers by mappings of their own, where patience is enough.
void HostExecutor::close_buffers() {
  if (!exposed_) return;
  exposed_ = false;
  const uint64_t mine = static_cast<uint64_t>(options_.rank + 1) << 32 | call_number_;
  for (uint32_t rank : domain_) {
    std::atomic<uint64_t>& closed = peers_[rank].arena.guard().closed;
    uint64_t before = closed.load(std::memory_order_relaxed);
    // The first call that somebody left counts.
    while (before == 0 || static_cast<int32_t>(static_cast<uint32_t>(before) - call_number_) > 0) {
      if (closed.compare_exchange_weak(before, mine, std::memory_order_seq_cst)) break;
    }
  }
  const uint64_t until_ns = monotonic_ns() + kPatienceNs;
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

void HostExecutor::check_rare() {
  if (Status status = health_.check(); !status.ok()) {
    blamed_ = health_.culprit();
    return fail(std::move(status));
  }
  if (Status status = diagnose(waiting_for_); !status.ok()) return fail(std::move(status));
  if (call_.deadline_ns != kNoDeadline && monotonic_ns() > call_.deadline_ns) {
    fail(Status::timeout(std::string(call_.what) + " (call " + std::to_string(call_number_) +
                         ") on rank " + std::to_string(options_.rank) +
                         " passed its deadline while waiting for rank " +
                         std::to_string(waiting_for_)));
  }
}

// Why a peer does not answer: its link is broken, it gave up, or it is in another call. Ranks of
// one host are told of dead peers by Health; asking their links costs system calls.
Status HostExecutor::diagnose(uint32_t peer) {
  const Peer& other = peers_[peer];
  if (!other.arena.valid()) {
    return other.link == nullptr ? Status() : hearsay(other.link->status());
  }
  const uint32_t failed = other.arena.counter(0).failed.load(std::memory_order_acquire);
  if (failed == 0) return compare_calls(peer);
  blamed_ = static_cast<int>(failed - 1);
  return hearsay(Status::remote_error("rank " + std::to_string(peer) + " gave up in " + call_.what +
                                      " because of rank " + std::to_string(failed - 1)));
}

// A peer may have left because of another that died. Health may know in a moment who is gone.
Status HostExecutor::hearsay(Status status) {
  if (status.code() != Code::kRemoteError) return status;
  if (gave_up_at_ns_ == 0) gave_up_at_ns_ = monotonic_ns();
  return monotonic_ns() - gave_up_at_ns_ < kPatienceNs ? Status() : status;
}

Status HostExecutor::compare_calls(uint32_t peer) const {
  const Peer& other = peers_[peer];
  const Counter& counter = other.arena.counter(0);
  if (call_.signature == 0) return {};  // send and receive are not calls of the whole group
  uint64_t word = counter.call.load(std::memory_order_acquire);
  const auto ahead = static_cast<int32_t>(static_cast<uint32_t>(word >> 32) - call_number_);
  if (ahead < 0) return {};  // late, not wrong
  if (ahead > 0) word = other.arena.recent(call_number_).load(std::memory_order_acquire);
  if (static_cast<uint32_t>(word >> 32) != call_number_) return {};
  if (static_cast<uint32_t>(word) == call_.signature) return {};
  return Status::invalid_usage(
      "call " + std::to_string(call_number_) + " differs between ranks: rank " +
      std::to_string(options_.rank) + " is in " + call_.what + ", rank " + std::to_string(peer) +
      " called something else (collective, count, type, operation, root, placement or options); "
      "every rank must make the same calls in the same order");
}

void HostExecutor::check_signature(uint32_t peer) {
  const uint64_t mine = uint64_t{call_number_} << 32 | call_.signature;
  const uint64_t theirs = peers_[peer].arena.counter(0).call.load(std::memory_order_relaxed);
  if (theirs == mine) return;
  if (Status status = compare_calls(peer); !status.ok()) fail(std::move(status));
}

}  // namespace tutti::exec
