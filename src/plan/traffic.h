// All messages between the ranks of one domain for one slice: matched, then given a mechanism (by
// mechanism.h), then numbered. A working table of match(); nothing of it survives in a plan.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/plan/match.h"

namespace tutti::plan {

/// One SEND with a receiver in the domain; a multicast is one message.
struct Sent {
  int source = 0;
  uint32_t step = 0;
  Mechanism mechanism = Mechanism::kSlot;
  bool signal = false;
  bool ready_at_entry = false;  // PULL of a block that nothing wrote before
  uint32_t slot = 0;
  uint32_t cell = 0;
  uint32_t value = 0;
  uint32_t first_delivery = kNone;
  static constexpr uint32_t kNone = ~0u;
};

/// One receiver of a message: operand `operand` of step `step` of `rank`.
struct Delivery {
  int rank = 0;
  uint32_t step = 0;
  uint32_t next = Sent::kNone;
};

class Traffic {
 public:
  /// Of the domain of `rank`; all are kept by reference.
  Traffic(const schedule::Shape& shape, const group::GroupView& group, int rank);

  void add(schedule::Schedule schedule);  // of each rank of the domain, in rising order
  /// Pairs the k-th SEND of every channel with its k-th message source.
  Status match();
  /// Signals, slots and cells; after the mechanisms are chosen.
  void number();

  std::span<Sent> messages() { return sent_; }
  const Sent& sent(uint32_t id) const { return sent_[id]; }
  /// The message of a SEND step; null if nobody of the domain receives it.
  const Sent* sent_by(int rank, uint32_t step) const;
  /// The messages a rank receives, in the order of its MOVE sources.
  const std::vector<uint32_t>& arrivals(int rank) const { return arrivals_[place_of(rank)]; }
  const schedule::Schedule& schedule_of(int rank) const { return schedules_[place_of(rank)]; }
  /// Among the ranks of the domain.
  uint32_t place_of(int rank) const { return group_.near_place(rank); }
  const std::vector<schedule::Schedule>& schedules() const { return schedules_; }
  const schedule::Shape& shape() const { return shape_; }
  const schedule::Step& step_of(const Sent& sent) const {
    return schedule_of(sent.source).steps[sent.step];
  }
  std::span<const schedule::Block> blocks_of(const Sent& sent) const {
    return schedule_of(sent.source).blocks_of(step_of(sent));
  }
  std::span<const schedule::Block> target_of(const Delivery& delivery) const {
    const schedule::Schedule& schedule = schedule_of(delivery.rank);
    return schedule.blocks_of(schedule.steps[delivery.step]);
  }
  /// The value of the receiver's counter that says it has consumed the message.
  uint32_t done_value(const Delivery& delivery) const;

  template <class Function>
  void each_delivery(const Sent& sent, Function function) const {
    for (uint32_t i = sent.first_delivery; i != Sent::kNone; i = deliveries_[i].next) {
      function(deliveries_[i]);
    }
  }

  /// Whether the graph of who sends to whom has no circle.
  bool flows_one_way() const;

  std::vector<LaneMatch> lanes() const { return lanes_; }
  uint32_t message_blocks() const { return message_blocks_; }

 private:
  struct StepSignal {
    uint32_t step;
    uint32_t value;
    uint16_t lane;
  };

  size_t channel(uint16_t lane, size_t source, size_t target) const {
    return (lane * schedules_.size() + source) * schedules_.size() + target;
  }
  template <class Function>
  void each_near_send(Function function) const;
  Status pair_sources(const std::vector<uint32_t>& begin, std::vector<uint32_t>& next,
                      const std::vector<uint32_t>& queue);
  void number_rank(size_t local);

  /// In schedules_; kNone: of another domain.
  uint32_t place_or_none(int rank) const {
    return group_.near(rank_, rank) ? place_of(rank) : Sent::kNone;
  }

  const schedule::Shape& shape_;
  const group::GroupView& group_;
  const int rank_;
  std::vector<schedule::Schedule> schedules_;  // of the ranks of the domain
  std::vector<Sent> sent_;
  std::vector<std::vector<uint32_t>> sent_of_step_;  // [local][step] -> id or kNone
  std::vector<std::vector<uint32_t>> arrivals_;
  std::vector<Delivery> deliveries_;
  std::vector<std::vector<StepSignal>> signals_;  // [local], rising
  std::vector<LaneMatch> lanes_;
  uint32_t message_blocks_ = 0;
};

}  // namespace tutti::plan
