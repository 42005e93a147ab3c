// The virtual clock of timelines.
#include "src/runtime/simulate.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

/// Where nothing shares a link: each meeting after all that it waits for.
History by_order(const Timeline& timeline, const TimelineGraph& graph) {
  History history;
  history.spans.resize(timeline.tasks.size());
  for (const int meeting : graph.order) {
    const std::vector<int>& together = graph.meetings[at(meeting)];
    Nanoseconds begin{0}, duration{0};
    for (const int t : together) {
      Nanoseconds& ready = history.spans[at(t)].ready;
      const auto wait_for = [&](int other) {
        ready = std::max(ready, history.spans[at(other)].end);
      };
      if (graph.previous[at(t)] >= 0) wait_for(graph.previous[at(t)]);
      for (const int before : timeline.tasks[at(t)].after) wait_for(before);
      begin = std::max(begin, ready);
      duration = std::max(duration, timeline.tasks[at(t)].duration);
    }
    for (const int t : together) {
      history.spans[at(t)].begin = begin;
      history.spans[at(t)].end = begin + duration;
    }
  }
  return history;
}

// The rest of a transfer counts in twelfths of a nanosecond at full rate: a rank has four
// tracks, and a link that 1, 2, 3 or 4 of them share gives each a whole number of twelfths.
constexpr int64_t kParts = 12;

/// One direction of a link of a rank.
using Direction = std::tuple<int, int, bool>;

/// Events in the order of time. Transfers that use one direction of a link at the same time have
/// equal shares of it.
class SharedLinks {
 public:
  SharedLinks(const Timeline& timeline, const TimelineGraph& graph)
      : timeline_(timeline), graph_(graph), waits_(graph.meetings.size(), 0) {
    history_.spans.resize(timeline.tasks.size());
    followers_.resize(timeline.tasks.size());
    for (int t = 0; t < std::ssize(timeline.tasks); ++t) {
      if (graph.previous[at(t)] >= 0) follow(graph.previous[at(t)], t);
      for (const int before : timeline.tasks[at(t)].after) follow(before, t);
    }
  }

  History run() {
    for (size_t m = 0; m < waits_.size(); ++m) {
      if (waits_[m] == 0) begin(static_cast<int>(m));
    }
    while (!alone_.empty() || !transfers_.empty()) {
      const int64_t next = next_time();
      advance(next - now_);
      now_ = next;
      std::vector<int> ended;
      for (; !alone_.empty() && alone_.top().first == now_; alone_.pop()) {
        ended.push_back(alone_.top().second);
      }
      std::erase_if(transfers_, [&](const SimulatedTransfer& transfer) {
        if (transfer.left > 0) return false;
        for (const Direction& direction : transfer.directions) --users_[direction];
        ended.push_back(transfer.meeting);
        return true;
      });
      for (const int meeting : ended) end(meeting);
    }
    return std::move(history_);
  }

 private:
  struct SimulatedTransfer {
    int meeting = 0;
    int64_t left = 0;  // in parts
    std::vector<Direction> directions;
  };

  void follow(int before, int t) {
    followers_[at(before)].push_back(t);
    ++waits_[at(graph_.meeting[at(t)])];
  }

  /// A message leaves its sender and comes to its receiver; a collective does both everywhere.
  std::vector<Direction> directions_of(int meeting) const {
    std::vector<Direction> directions;
    for (const int t : graph_.meetings[at(meeting)]) {
      const TimelineTask& task = timeline_.tasks[at(t)];
      if (task.link < 0 || !communicates(task.kind)) continue;
      if (task.kind != TaskKind::kRecv) directions.emplace_back(task.rank, task.link, true);
      if (task.kind != TaskKind::kSend) directions.emplace_back(task.rank, task.link, false);
    }
    return directions;
  }

  void begin(int meeting) {
    Nanoseconds duration{0};
    for (const int t : graph_.meetings[at(meeting)]) {
      history_.spans[at(t)].begin = Nanoseconds(now_);
      duration = std::max(duration, timeline_.tasks[at(t)].duration);
    }
    std::vector<Direction> directions = directions_of(meeting);
    if (directions.empty() || duration == Nanoseconds(0)) {
      return alone_.emplace(now_ + duration.value, meeting), void();
    }
    for (const Direction& direction : directions) ++users_[direction];
    transfers_.push_back({meeting, duration.value * kParts, std::move(directions)});
  }

  void end(int meeting) {
    for (const int t : graph_.meetings[at(meeting)]) {
      history_.spans[at(t)].end = Nanoseconds(now_);
      for (const int follower : followers_[at(t)]) {
        Nanoseconds& ready = history_.spans[at(follower)].ready;
        ready = std::max(ready, Nanoseconds(now_));
        const int next = graph_.meeting[at(follower)];
        if (--waits_[at(next)] == 0) begin(next);
      }
    }
  }

  /// In parts a nanosecond: its share of the direction that most others use, too.
  int64_t rate_of(const SimulatedTransfer& transfer) const {
    int most = 1;
    for (const Direction& direction : transfer.directions) {
      most = std::max(most, users_.at(direction));
    }
    return kParts / most;
  }

  int64_t next_time() const {
    int64_t next = alone_.empty() ? INT64_MAX : alone_.top().first;
    for (const SimulatedTransfer& transfer : transfers_) {
      const int64_t rate = rate_of(transfer);
      next = std::min(next, now_ + (transfer.left + rate - 1) / rate);
    }
    return next;
  }

  void advance(int64_t elapsed) {
    for (SimulatedTransfer& transfer : transfers_) {
      transfer.left = std::max<int64_t>(0, transfer.left - elapsed * rate_of(transfer));
    }
  }

  const Timeline& timeline_;
  const TimelineGraph& graph_;
  History history_;
  std::vector<std::vector<int>> followers_;  // of each task
  std::vector<int> waits_;                   // of each meeting: tasks that have not ended
  std::map<Direction, int> users_;
  std::vector<SimulatedTransfer> transfers_;
  using Ending = std::pair<int64_t, int>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> alone_;
  int64_t now_ = 0;
};

}  // namespace

History simulate_graph(const Timeline& timeline, const TimelineGraph& graph) {
  const bool shares = std::any_of(
      timeline.tasks.begin(), timeline.tasks.end(),
      [](const TimelineTask& task) { return communicates(task.kind) && task.link >= 0; });
  return shares ? SharedLinks(timeline, graph).run() : by_order(timeline, graph);
}

History simulate(const Timeline& timeline) {
  const TimelineGraph graph = graph_of(timeline);
  if (!graph.findings.empty()) {
    throw Error(ErrorKind::kInvalidInput, graph.findings.front().sentence);
  }
  return simulate_graph(timeline, graph);
}

}  // namespace tutti::runtime
