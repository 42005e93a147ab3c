// The level within hosts of any schedule, in calls of a library that does whole collectives among
// the ranks of a host (MatchRequest::level_calls).
//
// Between two messages to or from other hosts, a rank's steps with the ranks near it are a *run*.
// The runs of all ranks of a host are executed here on symbols: a block of a rank ends with the
// fold of one block of each of them, or with a copy of some rank's block. That is what the library
// is told, row by row, and no step of the run is left. So nothing here knows an algorithm: whatever
// one does within a host, it is the same sums of the same blocks.
//
// Messages to other hosts, and steps of one rank before and behind a run, stay as they are.
//
// Threads: pure. Errors: kUnsupported, with the reason: a value within a run is a sum over some
// ranks of the host only, ranks of a host have runs that do not meet, or a call would write what it
// reads.
#pragma once

#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/group/view.h"
#include "src/plan/match.h"
#include "src/schedule/schedule.h"

namespace tutti::plan {

/// The part of one rank.
struct RankLevels {
  std::vector<MatchedLevel> levels;
  std::vector<bool> replaced;  // by step: a MOVE that a level call does
};

/// Of all ranks of a host, by place; `schedules` likewise. Equal on all of them.
Result<std::vector<RankLevels>> find_level_calls(const schedule::Shape& shape,
                                                 const group::GroupView& group,
                                                 std::span<const schedule::Schedule> schedules);

}  // namespace tutti::plan
