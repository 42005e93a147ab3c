// The words by which the ranks' streams agree on the runs of captured calls: what a graph may hold,
// which is constants.
//
// Each rank has these words, which only its streams write, all 0 at first. A run of a call is, on
// each rank:
//
//   progress := 1             I am in this run
//   until all progress >= 1   all are: nobody waits for a `reset` of the run before any more
//   reset := 0
//   ... the plan: progress rises, streams wait for each other's ...
//   done := 1                 I wait for no `progress` of this run any more, and have read all
//   until all done >= 1       nobody does
//   progress := 0             and that of the second lane, if the plan has one
//   reset := 1
//   until all reset >= 1      nobody waits for a `done` of this run any more, and no `progress` of
//   done := 0                 this run is left
//
// The second lane's progress is written in plans alone, and is for the others as the first one's.
//
// So between two writes of a word that others wait for its readers have read the first, its writer
// has reset it, and the readers know that: of `progress` by the `reset` of the same run, of `done`
// by the next run's `progress`, which its writer writes behind the 0, of `reset` by the next run's
// `done`. A word cannot be reset by what its own waiters say with the same word: one who has seen
// all of them may be seen late by others.
//
// Runs of a communicator's calls follow each other on each rank (exec::CallOrder), so all captured
// calls of a communicator share the words, and the ring, which nobody reads between two runs.
// captured_words_test.cc looks at every order of the steps of several ranks and runs.
//
// Threads: no state. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::engines::streams {

enum class CapturedWord : uint8_t { kProgress, kDone, kReset, kSecondProgress };
inline constexpr uint32_t kCapturedWords = 4;

struct CapturedStep {
  bool waits =
      false;  // until the word of `rank` is at least the value; else the own one becomes it
  CapturedWord word = CapturedWord::kProgress;
  uint32_t rank = 0;
  uint64_t value = 0;
};
using CapturedSteps = std::vector<CapturedStep>;

inline constexpr uint64_t kCapturedArrived = 1;
/// Of an ordered pair of ranks, for sends and receives in graphs.
inline constexpr uint64_t kCapturedSlots = 2;

/// Before the plan, whose counters begin at kCapturedArrived. That of a second lane may still be
/// lower then: peers wait for what comes behind it.
CapturedSteps steps_before(uint32_t rank, uint32_t ranks);
/// Behind it. `lanes`: of the plan.
CapturedSteps steps_behind(uint32_t rank, uint32_t ranks, size_t lanes);

}  // namespace tutti::engines::streams
