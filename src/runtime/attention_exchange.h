// The common part of timelines of disaggregated attention: one nano-batch or stage of a rank enters
// attention, is attended to and leaves it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/runtime/timeline_builder.h"
#include "tutti/runtime/attention_timelines.h"

namespace tutti::runtime {

void check_layer(const AttentionLayer& layer);

class AttentionExchange {
 public:
  AttentionExchange(TimelineBuilder& builder, const AttentionLayer& layer, int rank, int channel)
      : builder_(builder), layer_(layer), rank_(rank), channel_(channel) {
    for (int& buffer : buffers_) buffer = builder.buffer();
  }

  int input() const { return buffers_[0]; }   // what the rank brings
  int output() const { return buffers_[3]; }  // what it gets back

  /// `after` is what wrote the input; empty: the rank brings nothing of its own.
  int enter(int tag, std::vector<int> after) {
    TimelineTask task = all_to_all("enter ", tag, buffers_[1]);
    if (!after.empty()) task.reads = {input()};
    task.after = std::move(after);
    task.duration = layer_.enter;
    task.bytes = layer_.enter_bytes;
    return builder_.add(std::move(task));
  }
  int attend(int entered, Nanoseconds duration, std::string name) {
    TimelineTask task;
    task.rank = rank_;
    task.name = std::move(name);
    task.duration = duration;
    task.after = {entered};
    task.reads = {buffers_[1]};
    task.writes = {buffers_[2]};
    return builder_.add(std::move(task));
  }
  int exit(int tag, int attended) {
    TimelineTask task = all_to_all("exit ", tag, output());
    task.after = {attended};
    task.reads = {buffers_[2]};
    task.duration = layer_.exit;
    task.bytes = layer_.exit_bytes;
    return builder_.add(std::move(task));
  }

 private:
  TimelineTask all_to_all(const char* what, int tag, int writes) const {
    TimelineTask task;
    task.rank = rank_;
    task.kind = TaskKind::kAllToAll;
    task.track = Track::kCommHigh;
    task.channel = channel_;
    task.tag = tag;
    task.name = what + std::to_string(tag);
    task.writes = {writes};
    return task;
  }

  TimelineBuilder& builder_;
  const AttentionLayer& layer_;
  int rank_;
  int channel_;
  int buffers_[4];  // brought, entered, attended, got back
};

}  // namespace tutti::runtime
