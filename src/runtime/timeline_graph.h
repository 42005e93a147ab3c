// The order in a timeline: which task waits for which, by tracks and by meetings of communication.
#pragma once

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

/// Which task ends before which begins. A clock counts, for each track of each rank, the tasks that
/// have ended; the tasks of a track end in order.
class HappensBefore {
 public:
  HappensBefore(const Timeline& timeline, const TimelineGraph& graph);

  bool ends_before(int task, int later) const {
    return position_[static_cast<size_t>(task)] <
           at_begin_[static_cast<size_t>(later) * chains_ + chain_of(task)];
  }

 private:
  size_t chain_of(int task) const { return chain_[static_cast<size_t>(task)]; }
  void join(std::vector<int32_t>& into, size_t to, const std::vector<int32_t>& from, size_t what);

  size_t chains_;
  std::vector<size_t> chain_;
  std::vector<int32_t> position_;  // on its track
  std::vector<int32_t> at_begin_;  // of each task, a clock
  std::vector<int32_t> at_end_;
};

}  // namespace tutti::runtime
