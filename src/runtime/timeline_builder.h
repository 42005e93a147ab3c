// Helpers with which generators build timelines.
#pragma once

#include <string>
#include <utility>

#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

class TimelineBuilder {
 public:
  explicit TimelineBuilder(int ranks) { timeline_.ranks = ranks; }

  int channel(RankSet members) {
    timeline_.channels.push_back(std::move(members));
    return static_cast<int>(timeline_.channels.size()) - 1;
  }
  /// The place of the task in the list.
  int add(TimelineTask task) {
    timeline_.tasks.push_back(std::move(task));
    return static_cast<int>(timeline_.tasks.size()) - 1;
  }
  TimelineTask& task(int place) { return timeline_.tasks[static_cast<size_t>(place)]; }
  int next() const { return static_cast<int>(timeline_.tasks.size()); }
  /// A buffer of a rank's own; the numbers need not be dense.
  int buffer() { return buffers_++; }
  Timeline& timeline() { return timeline_; }
  Timeline take() { return std::move(timeline_); }

 private:
  Timeline timeline_;
  int buffers_ = 0;
};

}  // namespace tutti::runtime
