#include "src/operation/driver.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <utility>

#include "src/operation/room.h"

namespace tutti::operation {

namespace {

/// A list that is empty keeps no more memory than a short queue needs.
template <class Kept>
void trim(std::vector<Kept>& empty) {
  if (empty.capacity() <= Driver::kMostSpares) return;
  std::vector<Kept>().swap(empty);
}

/// Of what is not needed now.
template <class Kept>
void put_away(std::list<Kept>& used, typename std::list<Kept>::iterator one,
              std::list<Kept>& spares) {
  if (spares.size() < Driver::kMostSpares) {
    spares.splice(spares.begin(), used, one);
  } else {
    used.erase(one);
  }
}

/// At the end of `used`.
template <class Kept>
Kept& take_out(std::list<Kept>& spares, std::list<Kept>& used) {
  if (spares.empty()) return used.emplace_back();
  used.splice(used.end(), spares, spares.begin());
  return used.back();
}

/// Returns what `work` returns. An exception becomes the failure of the communicator: each task has
/// this border of its own, so that one that finds no memory ends alone.
template <class Work>
Status run_for(comm::Communicator& communicator, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return communicator.fail_after(error);
  }
}

}  // namespace

Driver::Driver() { spare_chains_.reserve(kMostSpares); }

// All memory that a task needs to end, or to start the next one, is taken here.
Driver::QueuedTask& Driver::new_node() {
  make_room(active_, nodes_.size() + 1, kMostSpares);
  make_room(in_line_, nodes_.size() + 1, kMostSpares);
  QueuedTask& node = take_out(spare_nodes_, nodes_);
  node.self = std::prev(nodes_.end());
  node.number = ++added_;
  node.begun = node.done = false;
  node.blocked = 0;
  return node;
}

void Driver::add(Task task) {
  comm::Communicator& communicator = task.communicator();
  QueuedTask* node = nullptr;
  const Status lined_up = run_for(communicator, [&] {
    node = &new_node();
    node->priority = task.priority;
    node->task = std::move(task);
    line_up(*node);
    return Status();
  });
  if (lined_up.ok()) return;
  if (node == nullptr) return task.finish(lined_up);
  finish(*node, lined_up);
}

void Driver::line_up(QueuedTask& node) {
  node.seats.reserve(2 + node.task.more_streams.size());
  take_communicators_seat(node);
  take_seat(node, node.task.stream.order, node.task.group);
  for (const Task::TaskStream& other : node.task.more_streams) {
    take_seat(node, other.order, node.task.group);
  }
  for (const Seat& seat : node.seats) promote(seat.stage->before, node.priority);
  if (node.blocked == 0) activate(node);
}

Driver::Chain& Driver::chain_of(const void* order) {
  const auto found = chains_.find(order);
  if (found != chains_.end()) return found->second;
  Chain* made = nullptr;
  if (spare_chains_.empty()) {
    made = &chains_[order];
  } else {
    spare_chains_.back().key() = order;
    made = &chains_.insert(std::move(spare_chains_.back())).position->second;
    spare_chains_.pop_back();
  }
  made->order = order;
  made->is_communicators = false;
  return *made;
}

void Driver::free_chain(const Chain& chain) {
  Chains::node_type over = chains_.extract(chain.order);
  if (spare_chains_.size() < kMostSpares) spare_chains_.push_back(std::move(over));
  if (chains_.empty() && chains_.bucket_count() > kMostSpares * 2) Chains().swap(chains_);
}

// Behind what the chain holds; beside what belongs to the same group.
void Driver::take_seat(QueuedTask& node, const void* order, uint64_t group) {
  if (order == nullptr) return;
  Chain& chain = chain_of(order);
  const bool joins = group != 0 && !chain.stages.empty() && chain.stages.back().group == group;
  if (!joins) return take_seat_before(node, chain, chain.stages.end(), group);
  Stage& stage = chain.stages.back();
  stage.members.push_back({&node, node.seats.size()});
  node.seats.push_back({&stage, stage.members.size() - 1});
  if (stage.before != nullptr) ++node.blocked;
}

void Driver::take_communicators_seat(QueuedTask& node) {
  Chain& chain = chain_of(&node.task.communicator());
  chain.is_communicators = true;
  const auto later = node.task.is_replay ? first_to_wait(chain) : chain.stages.end();
  take_seat_before(node, chain, later, 0);
}

/// Of a communicator's chain, where each stage has one task: the first that has not begun and is no
/// replay.
std::list<Driver::Stage>::iterator Driver::first_to_wait(Chain& chain) {
  return std::find_if(chain.stages.begin(), chain.stages.end(), [](const Stage& stage) {
    const auto waits = [](const StageMember& member) {
      return !member.node->begun && !member.node->task.is_replay;
    };
    return std::all_of(stage.members.begin(), stage.members.end(), waits);
  });
}

// The task gets a stage of its own, which joins the chain when it needs no more memory. `later` may
// be the end.
void Driver::take_seat_before(QueuedTask& node, Chain& chain, std::list<Stage>::iterator later,
                              uint64_t group) {
  std::list<Stage> made;
  Stage& stage = take_out(spare_stages_, made);
  stage.members.push_back({&node, node.seats.size()});
  const bool is_last = later == chain.stages.end();
  stage.chain = &chain;
  stage.group = group;
  stage.priority = std::numeric_limits<int>::min();
  stage.before = nullptr;
  if (!is_last) {
    stage.before = std::exchange(later->before, &stage);
    stage.priority = later->priority;
    for (const StageMember& member : later->members) {
      stage.priority = std::max(stage.priority, member.node->priority);
      if (stage.before == nullptr && ++member.node->blocked == 1) std::erase(active_, member.node);
    }
  } else if (!chain.stages.empty()) {
    stage.before = &chain.stages.back();
  }
  chain.stages.splice(later, made);
  node.seats.push_back({&stage, 0});
  node.priority = std::max(node.priority, stage.priority);
  if (stage.before != nullptr) ++node.blocked;
}

// The last member gets the place.
void Driver::leave(const Seat& seat) {
  Stage& stage = *seat.stage;
  const StageMember last = stage.members.back();
  stage.members[seat.place] = last;
  last.node->seats[last.seat].place = seat.place;
  stage.members.pop_back();
  if (stage.members.empty() && stage.before == nullptr) end_first_stages(*stage.chain);
}

// One whose members all failed in line is over only when nothing is before it: so what is added
// later waits for what they had waited for.
void Driver::end_first_stages(Chain& chain) {
  while (!chain.stages.empty() && chain.stages.front().members.empty()) {
    trim(chain.stages.front().members);
    put_away(chain.stages, chain.stages.begin(), spare_stages_);
    if (chain.stages.empty()) return free_chain(chain);
    Stage& first = chain.stages.front();
    first.before = nullptr;
    looks_ += first.members.size();
    for (const StageMember& member : first.members) {
      if (--member.node->blocked == 0) activate(*member.node);
    }
  }
}

// Raises the stage, and all stages that it waits for, to the priority of a task that waits behind
// it. Null: that task waits for nothing.
void Driver::promote(Stage* stage, int priority) {
  raised_.assign(1, stage);
  while (!raised_.empty()) {
    Stage* const next = raised_.back();
    raised_.pop_back();
    ++looks_;
    if (next == nullptr || next->priority >= priority) continue;
    next->priority = priority;
    raised_.push_back(next->before);
    looks_ += next->members.size();
    for (const StageMember& member : next->members) raise(*member.node, priority);
  }
  trim(raised_);
}

void Driver::raise(QueuedTask& node, int priority) {
  if (node.priority >= priority) return;
  node.priority = priority;
  if (node.blocked == 0) {
    std::erase(active_, &node);
    activate(node);
  }
  for (const Seat& seat : node.seats) raised_.push_back(seat.stage->before);
}

void Driver::activate(QueuedTask& node) {
  const auto place = std::upper_bound(
      active_.begin(), active_.end(), &node, [](const QueuedTask* a, const QueuedTask* b) {
        return a->priority != b->priority ? a->priority > b->priority : a->number < b->number;
      });
  active_.insert(place, &node);
}

void Driver::finish(QueuedTask& node, const Status& status) {
  if (node.blocked == 0) std::erase(active_, &node);
  for (const Seat& seat : node.seats) leave(seat);
  node.seats.clear();
  trim(node.seats);
  Task over = std::exchange(node.task, Task());
  put_away(nodes_, node.self, spare_nodes_);
  if (nodes_.empty()) trim(active_);
  over.finish(status);
}

// True if the work is done, with this status.
bool Driver::run_on(QueuedTask& node, bool& moved, Status& status) {
  comm::Communicator& communicator = node.task.communicator();
  bool done = true;
  status = run_for(communicator, [&]() -> Status {
    if (!node.begun) {
      // Nobody opens the fence of one that fails: its stream may wait for a peer that is gone.
      done = node.task.may_begin() || !communicator.failure().ok();
      if (!done) return {};
      node.begun = true;
      moved = true;
      communicator.begin_among_others(node.task.priority);
      if (Status begun = node.task.begin(); !begun.ok()) return begun;
    }
    const exec::Progress progress = node.task.operation->advance();
    moved = moved || progress != exec::Progress::kBlocked;
    done = progress == exec::Progress::kDone;
    return done ? node.task.operation->outcome() : Status();
  });
  const bool over = done || !status.ok();
  if (over && node.begun) communicator.end_among_others();
  return over;
}

// True if the task is finished. Of a failed one nobody waits for the streams: they may be held up
// by anything, and its host memory is theirs until they are past it.
bool Driver::step(QueuedTask& node, bool& moved) {
  if (!node.done) {
    if (!run_on(node, moved, node.outcome)) return false;
    node.done = true;
    moved = true;
    node.task.release();
  }
  if (node.outcome.ok() && !node.task.is_over()) return false;
  moved = true;
  finish(node, std::exchange(node.outcome, Status()));
  return true;
}

bool Driver::advance() {
  bool moved = false;
  int priority = 0;
  uint32_t begun = 0;
  for (size_t i = 0; i < active_.size();) {
    QueuedTask& node = *active_[i];
    if (moved && node.priority < priority) break;
    // A queue of tasks of which none has to wait is no single turn: others want theirs.
    if (!node.begun && begun++ >= kMostBegun) {
      ++i;
      continue;
    }
    const int own = node.priority;
    bool stepped = false;
    if (!step(node, stepped)) ++i;
    if (stepped) {
      moved = true;
      priority = own;
    }
  }
  return moved;
}

// Whether a stream moved.
bool Driver::idle(bool rare) {
  ++polls_;
  bool moved = false;
  // A task that has not begun, or is done, has no deadline to pass: its communicator would look at
  // the call before.
  for (QueuedTask* node : active_) {
    comm::Communicator& communicator = node->task.communicator();
    (void)run_for(communicator, [&] {
      moved = communicator.idle(rare && node->begun && !node->done) || moved;
      return Status();
    });
  }
  if (rare && active_.size() < nodes_.size()) retire_failed();
  return moved;
}

// Nobody else looks at a task that waits behind an operation of another communicator. A thread that
// ends the task's communicator must not have to wait for that operation: it may be the thread that
// has to end it next.
void Driver::retire_failed() {
  in_line_.clear();
  for (const auto& [order, chain] : chains_) {
    if (chain.is_communicators && !chain.stages.empty()) in_line_.push_back(order);
  }
  for (const void* communicator : in_line_) {
    while (QueuedTask* const node = failed_in_line(communicator)) end_failed(*node);
  }
  in_line_.clear();
  if (nodes_.size() <= kMostSpares) trim(in_line_);
}

void Driver::end_failed(QueuedTask& node) {
  comm::Communicator& communicator = node.task.communicator();
  finish(node, run_for(communicator, [&] {
           communicator.give_up();  // so begin() starts nothing
           return node.task.begin();
         }));
}

// The first operation of the communicator, since its operations end in their order. Null: there is
// none, or it need not wait. The communicator may be freed once its last operation has been told.
Driver::QueuedTask* Driver::failed_in_line(const void* communicator) {
  ++looks_;
  const auto chain = chains_.find(communicator);
  if (chain == chains_.end()) return nullptr;
  QueuedTask& node = *chain->second.stages.front().members.front().node;
  const bool failed = node.blocked > 0 && !node.task.communicator().failure().ok();
  return failed ? &node : nullptr;
}

void Driver::turn(Backoff& backoff) {
  // One communicator that moves must not hide from the others that their peers are gone.
  constexpr uint32_t kMostTurns = 256;
  const bool moved = advance();
  if (moved) backoff.reset();
  const bool rare = moved ? ++moving_turns_ == kMostTurns : backoff.pause();
  if (rare) moving_turns_ = 0;
  // Nor must it keep from theirs what has come for them over the network.
  if (moved && !rare && ++unpolled_turns_ < turns_a_poll_) return;
  unpolled_turns_ = 0;
  const bool streamed = idle(rare);
  if (!moved) return;
  turns_a_poll_ = streamed ? kLeastTurnsAPoll : std::min(2 * turns_a_poll_, kMostTurnsAPoll);
}

void Driver::run(uint32_t spins) {
  Backoff backoff(spins);
  while (!empty()) turn(backoff);
}

}  // namespace tutti::operation
