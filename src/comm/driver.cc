#include "src/comm/driver.h"

#include <algorithm>
#include <utility>

namespace tutti::comm {

Driver::Node& Driver::new_node(Task task) {
  if (free_.empty()) {
    nodes_.emplace_back();
    free_.reserve(nodes_.size());
    free_.push_back(&nodes_.back());
  }
  Node& node = *free_.back();
  free_.pop_back();
  node.task = std::move(task);
  node.number = ++added_;
  node.priority = node.task.priority;
  node.begun = false;
  return node;
}

void Driver::add(Task task) {
  Node& node = new_node(std::move(task));
  append(node, node.task.communicator, 0);
  append(node, node.task.stream.order, node.task.group);
  for (const Task::Stream& other : node.task.more_streams) {
    append(node, other.order, node.task.group);
  }
  for (Node* earlier : node.ahead) promote(*earlier, node.priority);
  if (node.ahead.empty()) activate(node);
}

Driver::Chain* Driver::find_chain(const void* order) {
  const auto used = chains_.begin() + static_cast<ptrdiff_t>(chain_count_);
  const auto found = std::find_if(chains_.begin(), used, [&](const Chain& c) {  //
    return c.order == order;
  });
  return found == used ? nullptr : &*found;
}

// Behind what the chain holds; beside what belongs to the same group.
void Driver::append(Node& node, const void* order, uint64_t group) {
  if (order == nullptr) return;
  Chain* found = find_chain(order);
  if (found == nullptr) {
    if (chain_count_ == chains_.size()) chains_.emplace_back();
    found = &chains_[chain_count_++];
    found->order = order;
    found->group = 0;
  }
  Chain& chain = *found;
  if (group == 0 || chain.group != group) {
    // All of the latest may have been retired, while those before them still run.
    if (!chain.last.empty()) {
      std::swap(chain.before, chain.last);
      chain.last.clear();
    }
    chain.group = group;
  }
  for (Node* earlier : chain.before) put_behind(node, *earlier);
  chain.last.push_back(&node);
}

void Driver::put_behind(Node& later, Node& earlier) {
  if (std::find(later.ahead.begin(), later.ahead.end(), &earlier) != later.ahead.end()) return;
  later.ahead.push_back(&earlier);
  earlier.behind.push_back(&later);
}

void Driver::remove(Node& node, const void* order) {
  Chain* chain = find_chain(order);
  if (chain == nullptr) return;
  std::erase(chain->before, &node);
  std::erase(chain->last, &node);
  if (chain->before.empty() && chain->last.empty()) std::swap(*chain, chains_[--chain_count_]);
}

void Driver::promote(Node& node, int priority) {
  raised_.assign(1, &node);
  while (!raised_.empty()) {
    Node& next = *raised_.back();
    raised_.pop_back();
    if (next.priority >= priority) continue;
    next.priority = priority;
    raised_.insert(raised_.end(), next.ahead.begin(), next.ahead.end());
    if (next.ahead.empty()) {
      std::erase(active_, &next);
      activate(next);
    }
  }
}

void Driver::activate(Node& node) {
  const auto place =
      std::upper_bound(active_.begin(), active_.end(), &node, [](const Node* a, const Node* b) {
        return a->priority != b->priority ? a->priority > b->priority : a->number < b->number;
      });
  active_.insert(place, &node);
}

void Driver::finish(Node& node, const Status& status) {
  std::erase(active_, &node);
  remove(node, node.task.communicator);
  remove(node, node.task.stream.order);
  for (const Task::Stream& other : node.task.more_streams) remove(node, other.order);
  for (Node* next : node.behind) {
    std::erase(next->ahead, &node);
    if (next->ahead.empty()) activate(*next);
  }
  node.behind.clear();
  free_.push_back(&node);
  std::exchange(node.task, Task()).finish(status);
}

// True if the task is finished.
bool Driver::step(Node& node, bool& moved) {
  Communicator& communicator = *node.task.communicator;
  Status status;
  if (!node.begun) {
    node.begun = true;
    moved = true;
    status = node.task.begin();
  }
  if (status.ok()) {
    const exec::Progress progress = communicator.advance();
    moved = moved || progress != exec::Progress::kBlocked;
    if (progress != exec::Progress::kDone) return false;
    status = communicator.outcome();
  }
  moved = true;
  finish(node, status);
  return true;
}

bool Driver::advance() {
  bool moved = false;
  int priority = 0;
  for (size_t i = 0; i < active_.size();) {
    Node& node = *active_[i];
    if (moved && node.priority < priority) break;
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

void Driver::idle(bool rare) {
  // What has not begun has no deadline to pass yet: its communicator would look at the call before.
  for (Node* node : active_) node->task.communicator->idle(rare && node->begun);
  if (rare && active_.size() + free_.size() < nodes_.size()) retire_failed();
}

// What waits in line behind another communicator's operation is looked at by nobody else. Who ends
// its communicator must not have to wait for that operation: it may be the one to end that next.
void Driver::retire_failed() {
  for (Node& node : nodes_) {
    for (Node* next = &node; next != nullptr && has_failed_in_line(*next);) next = retire(*next);
  }
}

// The first of its communicator's, whose operations end in their order.
bool Driver::has_failed_in_line(const Node& node) {
  Communicator* const own = node.task.communicator;
  const auto is_own = [own](const Node* earlier) { return earlier->task.communicator == own; };
  return !node.ahead.empty() && std::none_of(node.ahead.begin(), node.ahead.end(), is_own) &&
         !own->failure().ok();
}

// What is added to the stream later waits for what the node waited for in it.
void Driver::bequeath(const Node& node, const Task::Stream& stream) {
  Chain* chain = find_chain(stream.order);
  if (chain == nullptr) return;
  const auto holds = [](const std::vector<Node*>& nodes, const Node* one) {
    return std::find(nodes.begin(), nodes.end(), one) != nodes.end();
  };
  for (Node* earlier : node.ahead) {
    if (!earlier->task.is_on(stream)) continue;
    if (!holds(chain->before, earlier) && !holds(chain->last, earlier)) {
      chain->before.push_back(earlier);
    }
  }
}

// What waits for the node waits for what the node waited for. Returns the next one of its
// communicator; null if there is none.
Driver::Node* Driver::retire(Node& node) {
  Communicator& communicator = *node.task.communicator;
  Node* next = nullptr;
  for (Node* earlier : node.ahead) std::erase(earlier->behind, &node);
  for (Node* later : node.behind) {
    for (Node* earlier : node.ahead) put_behind(*later, *earlier);
    if (next == nullptr && later->task.communicator == &communicator) next = later;
  }
  bequeath(node, node.task.stream);
  for (const Task::Stream& other : node.task.more_streams) bequeath(node, other);
  node.ahead.clear();
  communicator.give_up();  // so begin() starts nothing
  finish(node, node.task.begin());
  return next;
}

void Driver::turn(exec::Backoff& backoff) {
  // One communicator that moves must not hide from the others that their peers are gone.
  constexpr uint32_t kMostTurns = 256;
  const bool moved = advance();
  if (moved) backoff.reset();
  const bool rare = moved ? ++moving_turns_ == kMostTurns : backoff.pause();
  if (rare) moving_turns_ = 0;
  if (!moved || rare) idle(rare);
}

void Driver::run(uint32_t spins) {
  exec::Backoff backoff(spins);
  while (!empty()) turn(backoff);
}

}  // namespace tutti::comm
