// The order in a timeline: which task waits for which, by tracks and by meetings of communication.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

struct TimelineGraph {
  std::vector<int> previous;               // of each task: the one before it on its track, -1
  std::vector<int> meeting;                // of each task
  std::vector<std::vector<int>> meetings;  // tasks that begin together
  std::vector<int> order;         // of meetings; shorter than `meetings` where there is a circle
  std::vector<Finding> findings;  // of rules 2 to 5; with any of 2 there are no meetings
};

TimelineGraph graph_of(const Timeline& timeline);

/// The tasks of each rank, each before those that wait for it.
std::vector<std::vector<int>> tasks_by_rank(const Timeline& timeline, const TimelineGraph& graph);

/// Which task of a rank ends before which other task of that rank begins. A clock counts, for each
/// track of the rank, the tasks that have ended; the tasks of a track end in order.
///
/// The order that a rank's own tracks and dependencies make is known at once. The order that only
/// messages between other ranks make takes a walk over the tasks of all ranks for each rank that
/// asks; it is kept for the rank that asked last.
class HappensBefore {
 public:
  using Clock = std::array<int32_t, kTracks>;

  HappensBefore(const Timeline& timeline, TimelineGraph graph);

  bool ends_before(int task, int later) const {
    return own_.has_ended(*this, task, later) || across(task).has_ended(*this, task, later);
  }
  /// The same, of what the rank orders by itself alone.
  bool ends_before_by_itself(int task, int later) const {
    return own_.has_ended(*this, task, later);
  }

  /// For each task: how many tasks of each track of its rank have ended when it begins, or ends.
  struct Clocks {
    std::vector<Clock> at_begin, at_end;
    bool has_ended(const HappensBefore& order, int task, int later) const {
      const size_t t = static_cast<size_t>(task);
      return order.position_[t] <
             at_begin[static_cast<size_t>(later)][static_cast<size_t>(order.track_of(task))];
    }
  };
  const Clocks& by_itself() const { return own_; }
  const Clocks& across(int task) const;

 private:
  int track_of(int task) const {
    return static_cast<int>(timeline_.tasks[static_cast<size_t>(task)].track);
  }
  /// `rank` -1: every rank counts its own tasks and hears of no other's.
  void walk(Clocks& clocks, int rank) const;

  const Timeline& timeline_;
  TimelineGraph graph_;
  std::vector<int32_t> position_;  // on its track
  Clocks own_;
  mutable Clocks across_;
  mutable int across_of_ = -1;  // the rank
};

/// The most memory that a rank can hold at one time in any order of its tracks that the timeline
/// allows.
Bytes most_memory(const Timeline& timeline, const std::vector<int>& tasks_of_rank,
                  const HappensBefore::Clocks& clocks);

}  // namespace tutti::runtime
