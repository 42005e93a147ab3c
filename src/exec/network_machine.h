// The machine of plan::Walk that does the messages between hosts of a call on a device, and nothing
// else: the rank's streams do the rest of the same plan. It touches no byte of a message: it gives
// the bounce buffer's memory to the network.
//
// Owns: the tickets of messages. Threads: one at a time. Errors: those of the links are the call's
// (CallState); it has none of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "src/exec/bounce_buffer.h"
#include "src/exec/call_state.h"
#include "src/plan/walk.h"

namespace tutti::exec {

class NetworkMachine {
 public:
  static constexpr uint64_t kSlicesATurn = 4;

  /// It outlives this.
  explicit NetworkMachine(CallState& state) : state_(state) {}

  /// Before a walk of the plan, which outlives it. `find_late` as NetworkCall's.
  void start(const plan::Plan& plan, const BounceBuffer& bounce,
             std::function<std::optional<uint32_t>()> find_late);

  plan::Answer post(const plan::Position& at, const plan::Op& op);
  plan::Answer arrived(const plan::Position& at, const plan::Op& op);
  plan::Answer sent(const plan::Position& at, const plan::Op& op);
  void closed(const plan::Position& at);

  // The streams' part.
  plan::Answer enter(const plan::Position&) { return plan::Answer::kGoOn; }
  plan::Answer entered(const plan::Position&, uint32_t) { return plan::Answer::kGoOn; }
  plan::Answer move(const plan::Position&, const plan::Op&) { return plan::Answer::kGoOn; }
  plan::Answer read(const plan::Position&, const plan::Op&) { return plan::Answer::kGoOn; }
  plan::Answer signal(const plan::Position&, uint64_t) { return plan::Answer::kGoOn; }
  plan::Answer reached(const plan::Position&, uint32_t, uint32_t, uint64_t) {
    return plan::Answer::kGoOn;
  }
  plan::Answer own_reached(const plan::Position&, uint32_t, uint64_t) {
    return plan::Answer::kGoOn;
  }
  plan::Answer passed(const plan::Position&, uint32_t, uint64_t) { return plan::Answer::kGoOn; }
  plan::Answer level(const plan::Position&, const plan::Op&) { return plan::Answer::kGoOn; }
  plan::Answer raise(const plan::Position&, uint64_t, uint64_t) { return plan::Answer::kGoOn; }
  plan::Answer raised(const plan::Position&, uint32_t, uint64_t, uint64_t) {
    return plan::Answer::kGoOn;
  }
  void fork() {}
  void opened(const plan::Position&) {}
  void stepped(const plan::Position&) {}
  void behind(const plan::Position&, uint32_t, uint64_t, uint32_t) {}
  void join() {}

 private:
  struct SentMessage {
    transport::Stream::Ticket ticket = 0;
    uint32_t peer = 0;
    uint64_t timed = 0;  // by the flight recorder
  };
  struct LandedMessage {
    transport::Stream::Ticket ticket = 0;
    uint64_t timed = 0;
  };
  struct LaneMessages {
    std::vector<LandedMessage> received;
    std::vector<SentMessage> sent;
    uint64_t staged = 0, arrived = 0;  // so many are behind the lane
  };

  bool has_come(const std::atomic<uint64_t>& word, uint64_t value);
  void send(const plan::Position& at, const plan::Op& op);
  void receive(const plan::Position& at, const plan::Op& op);
  uint64_t time_message(const plan::Position& at, const plan::Op& op, bool sends, uint64_t bytes);
  void end_timed(uint64_t& timed);
  uint64_t bytes_at(const plan::Position& at, uint64_t length) const {
    return plan::piece_of(*plan_, at.lane, at.slice, length).length * plan_->element_bytes;
  }
  transport::ChannelId channel_of(uint32_t lane) const {
    return {state_.options().communicator, state_.options().epoch, lane};
  }

  CallState& state_;
  const plan::Plan* plan_ = nullptr;
  BounceBuffer bounce_;
  std::function<std::optional<uint32_t>()> find_late_;
  uint32_t looks_ = 0;  // at words of streams that had not come
  std::vector<LaneMessages> lanes_;
  std::vector<transport::Buffer> buffers_;
};

}  // namespace tutti::exec
