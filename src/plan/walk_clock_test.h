// The machine with a virtual clock. A lane has a time of its own; work takes time, and a lane that
// goes on behind another rank's signal is not before it. A rank that has to wait is put aside and
// woken by the very thing that it waits for: nothing is asked twice in vain.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "src/plan/walk_world_test.h"

namespace tutti::plan::machines {

/// The events that ranks wait for, and the order in which ranks go on.
class Alarm {
 public:
  enum class Kind : uint8_t { kCounter, kFlag, kMessage };
  /// A counter or flag of a member, or a posted message.
  struct Sign {
    Kind kind;
    uint32_t member;
    uint64_t place;  // lane; cell
    World::Ticket ticket{};
    auto operator<=>(const Sign&) const = default;
  };

  void put_aside(uint32_t rank, const Sign& sign) { sleepers_[sign].push_back(rank); }
  /// Something was done about the sign, at this time.
  void ring(const Sign& sign, uint64_t value, uint64_t time) {
    history_[sign].push_back({value, time});
    const auto found = sleepers_.find(sign);
    if (found == sleepers_.end()) return;
    const std::vector<uint32_t> woken = std::move(found->second);
    sleepers_.erase(found);
    for (const uint32_t rank : woken) {
      if (std::find(ready.begin(), ready.end(), rank) == ready.end()) ready.push_back(rank);
    }
  }
  /// When the sign first had `value`, or more; nothing: from the beginning.
  std::optional<uint64_t> time_of(const Sign& sign, uint64_t value) const {
    const auto found = history_.find(sign);
    if (found == history_.end()) return {};
    for (const auto& [at_value, time] : found->second) {
      if (at_value >= value) return time;
    }
    return {};
  }

  std::deque<uint32_t> ready;
  std::map<World::Ticket, uint64_t> posted;  // when

 private:
  std::map<Sign, std::vector<uint32_t>> sleepers_;
  std::map<Sign, std::vector<std::pair<uint64_t, uint64_t>>> history_;
};

class Timed {
 public:
  static constexpr uint64_t kSlicesATurn = 16;
  static constexpr uint64_t kLatency = 100, kPerElement = 1;

  Timed(World& world, Alarm& alarm, uint32_t rank)
      : world_(world), alarm_(alarm), rank_(rank), times_(world.plan(rank).lanes.size()) {}

  void begin(uint32_t call) { call_ = call; }
  /// When the last lane was done.
  uint64_t now() const { return *std::max_element(times_.begin(), times_.end()); }

  Answer enter(const Position& at) { return raise(at, at.frame.cell, at.progress); }
  Answer entered(const Position& at, uint32_t member) {
    return raised(at, member, at.frame.cell, at.progress);
  }
  Answer move(const Position& at, const Op& op) {
    world_.move(rank_, call_, at, op);
    times_[at.lane] += op.length * kPerElement;
    return Answer::kGoOn;
  }
  Answer read(const Position& at, const Op& op) { return move(at, op); }
  Answer signal(const Position& at, uint64_t value) {
    world_.signal(rank_, at.lane, value);
    alarm_.ring({Alarm::Kind::kCounter, rank_, at.lane}, value, times_[at.lane]);
    return Answer::kGoOn;
  }
  Answer reached(const Position& at, uint32_t member, uint32_t lane, uint64_t value) {
    return answer(at, world_.reached(member, lane, value), {Alarm::Kind::kCounter, member, lane},
                  value);
  }
  Answer own_reached(const Position& at, uint32_t lane, uint64_t value) {
    return reached(at, rank_, lane, value);
  }
  Answer passed(const Position& at, uint32_t lane, uint64_t value) {
    for (const uint32_t member : world_.near(rank_)) {
      if (reached(at, member, lane, value) != Answer::kGoOn) return Answer::kNotYet;
    }
    return Answer::kGoOn;
  }
  Answer raise(const Position& at, uint64_t cell, uint64_t flag) {
    world_.raise(rank_, cell, flag);
    alarm_.ring({Alarm::Kind::kFlag, rank_, cell}, flag, times_[at.lane]);
    return Answer::kGoOn;
  }
  Answer raised(const Position& at, uint32_t member, uint64_t cell, uint64_t flag) {
    return answer(at, world_.raised(member, cell, flag), {Alarm::Kind::kFlag, member, cell}, flag);
  }
  Answer post(const Position& at, const Op& op) {
    const bool sends = op.code == OpCode::kStreamSend;
    alarm_.posted[{rank_, call_, at.slice, at.lane, op.value, sends}] = times_[at.lane];
    const std::vector<World::Ticket> done = world_.post(rank_, call_, at, op);
    uint64_t time = 0;  // both ends have posted
    for (const World::Ticket& ticket : done) time = std::max(time, alarm_.posted[ticket]);
    for (const World::Ticket& ticket : done) {
      alarm_.ring({Alarm::Kind::kMessage, 0, 0, ticket}, 0, time);
    }
    return Answer::kGoOn;
  }
  Answer arrived(const Position& at, const Op& op) { return done(at, at.lane, op.value, false); }
  Answer sent(const Position& at, const Op& op) { return done(at, op.lane, op.value, true); }

  void fork() { std::fill(times_.begin(), times_.end(), times_[0]); }
  void opened(const Position&) {}
  void closed(const Position&) {}
  void stepped(const Position& at) { steps_[{at.lane, at.slice}].push_back(times_[at.lane]); }
  void behind(const Position& at, uint32_t lane, uint64_t slice, uint32_t ops) {
    const std::vector<uint64_t>& steps = steps_[{lane, slice}];
    if (ops == 0 || steps.empty()) return;
    const uint64_t time = ops == kAllOps ? steps.back() : steps[ops - 1];
    times_[at.lane] = std::max(times_[at.lane], time);
  }
  void join() {
    times_[0] = now();
    steps_.clear();
  }

 private:
  Answer answer(const Position& at, bool holds, const Alarm::Sign& sign, uint64_t value) {
    if (!holds) {
      alarm_.put_aside(rank_, sign);
      return Answer::kNotYet;
    }
    if (const auto time = alarm_.time_of(sign, value)) {
      times_[at.lane] = std::max(times_[at.lane], *time + kLatency);
    }
    return Answer::kGoOn;
  }
  Answer done(const Position& at, uint32_t lane, uint32_t ordinal, bool sends) {
    const World::Ticket ticket{rank_, call_, at.slice, lane, ordinal, sends};
    return answer(at, world_.is_done(ticket), {Alarm::Kind::kMessage, 0, 0, ticket}, 0);
  }

  World& world_;
  Alarm& alarm_;
  const uint32_t rank_;
  uint32_t call_ = 0;
  std::vector<uint64_t> times_;  // by lane
  std::map<std::tuple<uint32_t, uint64_t>, std::vector<uint64_t>> steps_;
};

}  // namespace tutti::plan::machines
