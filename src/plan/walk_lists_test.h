// Two machines that go on at every question, and do the work afterwards: one writes down a list,
// one enqueues to a queue per lane, with events where a lane goes on behind another.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "src/plan/walk_world_test.h"

namespace tutti::plan::machines {

/// Does one thing, or says that it cannot yet.
using Item = std::function<bool()>;

/// Everything a walk asks for, as items that are appended somewhere. `Derived` has
/// append(lane, item) and the orders between lanes.
template <class Derived>
class Appending {
 public:
  static constexpr uint64_t kSlicesATurn = 1;

  Appending(World& world, uint32_t rank) : world_(world), rank_(rank) {}
  void begin(uint32_t call) { call_ = call; }

  Answer enter(const Position& at) { return raise(at, at.frame.cell, at.progress); }
  Answer entered(const Position& at, uint32_t member) {
    return raised(at, member, at.frame.cell, at.progress);
  }
  Answer move(const Position& at, const Op& op) {
    return append(at, [this, at, &op, call = call_] {
      world_.move(rank_, call, at, op);
      return true;
    });
  }
  Answer read(const Position& at, const Op& op) { return move(at, op); }
  Answer signal(const Position& at, uint64_t value) {
    return append(at, [this, lane = at.lane, value] {
      world_.signal(rank_, lane, value);
      return true;
    });
  }
  Answer reached(const Position& at, uint32_t member, uint32_t lane, uint64_t value) {
    return append(at, [this, member, lane, value] { return world_.reached(member, lane, value); });
  }
  Answer own_reached(const Position& at, uint32_t lane, uint64_t value) {
    return reached(at, rank_, lane, value);
  }
  Answer passed(const Position& at, uint32_t lane, uint64_t value) {
    for (const uint32_t member : world_.near(rank_)) reached(at, member, lane, value);
    return Answer::kGoOn;
  }
  Answer raise(const Position& at, uint64_t cell, uint64_t flag) {
    return append(at, [this, cell, flag] {
      world_.raise(rank_, cell, flag);
      return true;
    });
  }
  Answer raised(const Position& at, uint32_t member, uint64_t cell, uint64_t flag) {
    return append(at, [this, member, cell, flag] { return world_.raised(member, cell, flag); });
  }
  Answer post(const Position& at, const Op& op) {
    return append(at, [this, at, &op, call = call_] {
      world_.post(rank_, call, at, op);
      return true;
    });
  }
  Answer arrived(const Position& at, const Op& op) { return done(at, at.lane, op.value, false); }
  Answer sent(const Position& at, const Op& op) { return done(at, op.lane, op.value, true); }

 protected:
  Answer append(const Position& at, Item item) {
    static_cast<Derived*>(this)->append_to(at.lane, std::move(item));
    return Answer::kGoOn;
  }
  Answer done(const Position& at, uint32_t lane, uint32_t ordinal, bool sends) {
    const World::Ticket ticket{rank_, call_, at.slice, lane, ordinal, sends};
    return append(at, [this, ticket] { return world_.is_done(ticket); });
  }

  World& world_;
  const uint32_t rank_;
  uint32_t call_ = 0;
};

/// One list, in the order of the walk: every order between lanes is in it.
class Writer final : public Appending<Writer> {
 public:
  using Appending::Appending;
  void append_to(uint32_t, Item item) { list_.push_back(std::move(item)); }
  void fork() {}
  void opened(const Position&) {}
  void closed(const Position&) {}
  void stepped(const Position&) {}
  void behind(const Position&, uint32_t, uint64_t, uint32_t) {}
  void join() {}

  std::vector<std::deque<Item>*> queues() { return {&list_}; }

 private:
  std::deque<Item> list_;
};

/// A queue per lane. An event is an item that is done, in the queue where it was recorded.
class Enqueuer final : public Appending<Enqueuer> {
 public:
  Enqueuer(World& world, uint32_t rank)
      : Appending(world, rank), queues_(world.plan(rank).lanes.size()) {}

  void append_to(uint32_t lane, Item item) { queues_[lane].push_back(std::move(item)); }
  void fork() {
    const size_t event = record(0);
    for (uint32_t i = 1; i < queues_.size(); ++i) await(i, event);
  }
  void opened(const Position& at) { steps_[{at.lane, call_, at.slice}] = {record(at.lane)}; }
  void closed(const Position&) {}
  void stepped(const Position& at) {
    steps_[{at.lane, call_, at.slice}].push_back(record(at.lane));
  }
  void behind(const Position& at, uint32_t lane, uint64_t slice, uint32_t ops) {
    const auto found = steps_.find({lane, call_, slice});
    if (found == steps_.end()) return;  // no step of it is meant
    const std::vector<size_t>& events = found->second;
    await(at.lane, ops == kAllOps ? events.back() : events[ops]);
  }
  void join() {
    for (uint32_t i = 1; i < queues_.size(); ++i) await(0, record(i));
  }

  std::vector<std::deque<Item>*> queues() {
    std::vector<std::deque<Item>*> all;
    for (std::deque<Item>& queue : queues_) all.push_back(&queue);
    return all;
  }

 private:
  size_t record(uint32_t lane) {
    const size_t event = events_.size();
    events_.push_back(false);
    append_to(lane, [this, event] { return events_[event] = true; });
    return event;
  }
  void await(uint32_t lane, size_t event) {
    append_to(lane, [this, event]() -> bool { return events_[event]; });
  }

  std::vector<std::deque<Item>> queues_;
  std::vector<bool> events_;
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, std::vector<size_t>> steps_;
};

}  // namespace tutti::plan::machines
