// The runs of the ranks of a host (level_calls.h), executed on symbols.
//
// Threads: pure. Errors: kUnsupported, as level_calls.h says.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/group/view.h"
#include "src/schedule/schedule.h"

namespace tutti::plan {

/// A block as a rank of the host (by place) has it when a run begins.
struct BlockOfRank {
  uint32_t place = 0;
  uint32_t block = 0;  // Block::word
  auto operator<=>(const BlockOfRank&) const = default;
};
/// A block holds these, folded, when a run has ended; in rising order.
using BlockTerms = std::vector<BlockOfRank>;

/// The steps [first, last] of a rank are its part of a run.
struct StepRun {
  uint32_t first = 0, last = 0;
};

class LevelRuns {
 public:
  LevelRuns(const group::GroupView& group, std::span<const schedule::Schedule> schedules)
      : group_(group), schedules_(schedules) {}

  Status find();
  /// Of each rank as many as it has, by place.
  const std::vector<std::vector<StepRun>>& runs() const { return runs_; }
  /// The blocks that each rank has written in a run, as far as they are read later, or are its
  /// output: by place.
  Result<std::vector<std::map<uint32_t, BlockTerms>>> execute(size_t run) const;

 private:
  using Message = std::vector<BlockTerms>;
  struct RunState {
    std::vector<std::map<uint32_t, BlockTerms>> blocks;  // by place: those that were written
    std::vector<uint32_t> next;                          // by place: the step
    std::map<std::pair<uint32_t, uint32_t>, std::deque<Message>> messages;  // by both ends
  };

  Status find(const schedule::Schedule& schedule, std::vector<StepRun>& runs) const;
  bool has_near(const schedule::Schedule& schedule, const schedule::Step& step) const;
  bool has_far(const schedule::Schedule& schedule, const schedule::Step& step) const;
  bool advance(RunState& state, uint32_t place, size_t run) const;
  bool step(RunState& state, uint32_t place) const;
  void send(RunState& state, uint32_t place, const schedule::Step& step) const;
  bool move(RunState& state, uint32_t place, const schedule::Step& step) const;
  bool is_read_later(uint32_t place, size_t run, schedule::Block block) const;

  const group::GroupView& group_;
  const std::span<const schedule::Schedule> schedules_;
  std::vector<std::vector<StepRun>> runs_;
};

}  // namespace tutti::plan
