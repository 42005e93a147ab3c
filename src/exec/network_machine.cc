#include "src/exec/network_machine.h"

#include <utility>

namespace tutti::exec {

using plan::Answer;
using plan::Op;
using plan::Position;

void NetworkMachine::start(const plan::Plan& plan, const BounceBuffer& bounce,
                           std::function<std::optional<uint32_t>()> find_late) {
  plan_ = &plan;
  bounce_ = bounce;
  find_late_ = std::move(find_late);
  looks_ = 0;
  lanes_.resize(plan.lanes.size());
  for (size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].received.assign(plan.lanes[i].receives, {});
    lanes_[i].sent.assign(plan.lanes[i].sends, {});
    lanes_[i].staged = lanes_[i].arrived = 0;
  }
}

// While the streams have not come, a rank of this host may be why: messages should name it.
bool NetworkMachine::has_come(const std::atomic<uint64_t>& word, uint64_t value) {
  constexpr uint32_t kLooksANaming = 256;
  if (word.load(std::memory_order_acquire) >= value) return true;
  if (find_late_ && ++looks_ % kLooksANaming == 0) {
    if (const std::optional<uint32_t> late = find_late_()) state_.expect(*late);
  }
  return false;
}

Answer NetworkMachine::post(const Position& at, const Op& op) {
  const BounceWords::BounceLaneWords& words = bounce_.words->lanes[at.lane];
  if (op.code == plan::OpCode::kStreamReceive) {
    if (!has_come(words.drained.value, at.slice)) return Answer::kNotYet;
    receive(at, op);
  } else {
    if (!has_come(words.staged.value, lanes_[at.lane].staged + 1)) return Answer::kNotYet;
    ++lanes_[at.lane].staged;
    send(at, op);
  }
  return Answer::kGoOn;
}

void NetworkMachine::send(const Position& at, const Op& op) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < op.source_count; ++i) {
    bytes += bytes_at(at, plan_->lengths[op.lengths + i]);
  }
  const transport::ConstBuffer pieces{bounce_.memory + bounce_.layout->sent(at.lane, at.op), bytes};
  state_.announce_to(op.peer);
  transport::Stream& stream = *state_.peers()[op.peer].stream;
  const uint64_t timed = time_message(at, op, true, bytes);
  lanes_[at.lane].sent[op.value] = {
      stream.send(channel_of(at.lane), state_.call().far_signature, {&pieces, 1}), op.peer, timed};
}

void NetworkMachine::receive(const Position& at, const Op& op) {
  buffers_.clear();
  uint64_t bytes = 0;
  std::byte* const zones = bounce_.memory + bounce_.layout->landing(at.lane);
  for (uint32_t i = 0; i < op.target_count; ++i) {
    const plan::Operand& zone = plan_->operands[op.operands + i];
    buffers_.push_back({zones + zone.offset, bytes_at(at, plan_->lengths[op.lengths + i])});
    bytes += buffers_.back().bytes;
  }
  state_.announce_to(op.peer);
  transport::Stream& stream = *state_.peers()[op.peer].stream;
  const uint64_t timed = time_message(at, op, false, bytes);
  lanes_[at.lane].received[op.value] = {
      stream.receive(channel_of(at.lane), state_.call().far_signature, buffers_), timed};
}

uint64_t NetworkMachine::time_message(const Position& at, const Op& op, bool sends,
                                      uint64_t bytes) {
  trace::Recorder* const recorder = state_.options().recorder;
  if (recorder == nullptr || !recorder->in_call()) return 0;
  return recorder->begin_message({op.peer, at.lane, sends, at.slice, bytes});
}

void NetworkMachine::end_timed(uint64_t& timed) {
  if (const uint64_t number = std::exchange(timed, 0); number != 0) {
    state_.options().recorder->end_message(number);
  }
}

Answer NetworkMachine::arrived(const Position& at, const Op& op) {
  LaneMessages& lane = lanes_[at.lane];
  state_.expect(op.peer);
  LandedMessage& message = lane.received[op.value];
  if (!state_.peers()[op.peer].stream->received(message.ticket)) return Answer::kNotYet;
  end_timed(message.timed);
  bounce_.words->lanes[at.lane].arrived.value.store(++lane.arrived, std::memory_order_release);
  return Answer::kGoOn;
}

Answer NetworkMachine::sent(const Position& at, const Op& op) {
  SentMessage& message = lanes_[at.lane].sent[op.value];
  state_.expect(message.peer);
  const bool out = state_.peers()[message.peer].stream->sent(message.ticket);
  if (out) end_timed(message.timed);
  return out ? Answer::kGoOn : Answer::kNotYet;
}

void NetworkMachine::closed(const Position& at) {
  bounce_.words->lanes[at.lane].sent.value.store(at.slice + 1, std::memory_order_release);
}

}  // namespace tutti::exec
