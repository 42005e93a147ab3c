#include "src/plan/traffic.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tutti::plan {

using schedule::Schedule;
using schedule::Source;
using schedule::Step;
using schedule::StepKind;

Traffic::Traffic(const schedule::Shape& shape, const group::GroupView& group, int rank)
    : shape_(shape), group_(group), rank_(rank) {
  lanes_.resize(shape.lanes);
}

void Traffic::add(Schedule schedule) { schedules_.push_back(std::move(schedule)); }

// Calls function(local source, step index, step, local target) for every receiver in the domain.
template <class Function>
void Traffic::each_near_send(Function function) const {
  for (size_t source = 0; source < schedules_.size(); ++source) {
    const Schedule& schedule = schedules_[source];
    for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
      const Step& step = schedule.steps[i];
      if (step.kind != StepKind::kSend) continue;
      for (uint32_t peer : schedule.peers_of(step)) {
        const uint32_t target = place_or_none(static_cast<int>(peer));
        if (target != Sent::kNone) function(source, i, step, target);
      }
    }
  }
}

Status Traffic::match() {
  // Channels are filled like a counting sort: lengths, then beginnings, then messages in order.
  std::vector<uint32_t> begin(shape_.lanes * schedules_.size() * schedules_.size() + 1, 0);
  sent_of_step_.resize(schedules_.size());
  for (size_t i = 0; i < schedules_.size(); ++i) {
    sent_of_step_[i].assign(schedules_[i].steps.size(), Sent::kNone);
  }
  each_near_send([&](size_t source, uint32_t index, const Step& step, size_t target) {
    ++begin[channel(step.lane, source, target) + 1];
    uint32_t& id = sent_of_step_[source][index];
    if (id != Sent::kNone) return;
    id = static_cast<uint32_t>(sent_.size());
    sent_.push_back({.source = schedules_[source].rank, .step = index});
    message_blocks_ = std::max(message_blocks_, step.block_count);
  });
  for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  std::vector<uint32_t> queue(begin.back());
  std::vector<uint32_t> next = begin;
  each_near_send([&](size_t source, uint32_t index, const Step& step, size_t target) {
    queue[next[channel(step.lane, source, target)]++] = sent_of_step_[source][index];
  });
  next = begin;
  return pair_sources(begin, next, queue);
}

Status Traffic::pair_sources(const std::vector<uint32_t>& begin, std::vector<uint32_t>& next,
                             const std::vector<uint32_t>& queue) {
  arrivals_.resize(schedules_.size());
  for (size_t target = 0; target < schedules_.size(); ++target) {
    const Schedule& schedule = schedules_[target];
    for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
      const Step& step = schedule.steps[i];
      if (step.kind != StepKind::kMove) continue;
      for (Source source : schedule.sources_of(step)) {
        if (!source.is_message()) continue;
        const uint32_t sender = place_or_none(source.peer());
        if (sender == Sent::kNone) continue;
        const size_t at = channel(step.lane, sender, target);
        if (next[at] == begin[at + 1]) {
          return Status::internal_error("rank " + std::to_string(schedule.rank) + " step " +
                                        std::to_string(i) + " waits for a message that rank " +
                                        std::to_string(source.peer()) + " never sends");
        }
        Sent& message = sent_[queue[next[at]]];
        arrivals_[target].push_back(queue[next[at]++]);
        deliveries_.push_back({schedule.rank, i, message.first_delivery});
        message.first_delivery = static_cast<uint32_t>(deliveries_.size() - 1);
      }
    }
  }
  for (size_t at = 0; at + 1 < begin.size(); ++at) {
    if (next[at] != begin[at + 1]) return Status::internal_error("a message is never received");
  }
  return {};
}

const Sent* Traffic::sent_by(int rank, uint32_t step) const {
  const uint32_t id = sent_of_step_[place_of(rank)][step];
  return id == Sent::kNone ? nullptr : &sent_[id];
}

void Traffic::number() {
  signals_.resize(schedules_.size());
  for (size_t local = 0; local < schedules_.size(); ++local) number_rank(local);
}

void Traffic::number_rank(size_t local) {
  const Schedule& schedule = schedules_[local];
  std::vector<LaneMatch> used(shape_.lanes, LaneMatch{0, 0, 0});
  std::vector<Sent*> open(shape_.lanes,
                          nullptr);  // the last message of the run of SENDs in each lane
  const auto close = [&](uint16_t lane) {
    if (open[lane] == nullptr) return;
    open[lane]->signal = true;
    signals_[local].push_back({open[lane]->step, open[lane]->value, lane});
    open[lane] = nullptr;
  };
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    LaneMatch& lane = used[step.lane];
    if (step.kind == StepKind::kMove) {
      close(step.lane);
      continue;
    }
    if (step.after_count > 0) close(step.lane);  // what was sent must not wait for another lane
    const uint32_t id = sent_of_step_[local][i];
    if (id == Sent::kNone) continue;
    Sent& message = sent_[id];
    message.cell = lane.messages++;
    message.slot = lane.blocks;
    if (message.mechanism == Mechanism::kSlot) lane.blocks += step.block_count;
    if (message.ready_at_entry) continue;
    if (open[step.lane] == nullptr) ++lane.advance;  // consecutive SENDs share one signal
    message.value = lane.advance;
    open[step.lane] = &message;
  }
  for (uint16_t l = 0; l < shape_.lanes; ++l) {
    close(l);
    lanes_[l].advance = std::max(lanes_[l].advance, used[l].advance + 1);
    lanes_[l].blocks = std::max(lanes_[l].blocks, used[l].blocks);
    lanes_[l].messages = std::max(lanes_[l].messages, used[l].messages);
  }
}

bool Traffic::flows_one_way() const {
  // Ranks without senders are taken away until none is left, or a circle is.
  std::vector<uint32_t> senders(schedules_.size(), 0);
  for (size_t target = 0; target < schedules_.size(); ++target) {
    senders[target] = static_cast<uint32_t>(arrivals_[target].size());
  }
  std::vector<size_t> free;
  for (size_t rank = 0; rank < senders.size(); ++rank) {
    if (senders[rank] == 0) free.push_back(rank);
  }
  size_t taken = 0;
  for (; !free.empty(); ++taken) {
    const size_t source = free.back();
    free.pop_back();
    for (uint32_t id : sent_of_step_[source]) {
      if (id == Sent::kNone) continue;
      each_delivery(sent_[id], [&](const Delivery& delivery) {
        const size_t target = place_of(delivery.rank);
        if (--senders[target] == 0) free.push_back(target);
      });
    }
  }
  return taken == schedules_.size();
}

uint32_t Traffic::done_value(const Delivery& delivery) const {
  const uint16_t lane = schedule_of(delivery.rank).steps[delivery.step].lane;
  for (const StepSignal& signal : signals_[place_of(delivery.rank)]) {
    if (signal.lane == lane && signal.step > delivery.step) return signal.value;
  }
  return lanes_[lane].advance;
}

}  // namespace tutti::plan
