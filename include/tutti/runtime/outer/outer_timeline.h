// When inner steps and the exchanges of outer optimizers run: a timeline, and closed forms of it.
//
//   compute    | s1 | s2 | s3 | s4 |......| s5 |        DiLoCo: the exchange is exposed
//   comm low                       |------|
//
//   compute    | s1 | s2 | s3 | s4 | s5 | s6 |          with a delay, that much of it is hidden
//   comm low             |------|
//
// Source: the slots of Streaming DiLoCo (arXiv:2501.18512) and CO2 (arXiv:2401.16265), whose delay
// is its period: exact. All ranks are equally fast, and links carry one exchange at a time.
//
// Units:   nanoseconds and bytes.
// Errors:  throws Error and says which number to change.
// Threads: pure functions.
#pragma once

#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

struct OuterTimelineSpec {
  int ranks = 2;
  int steps = 16;
  int period = 4;     // steps between two exchanges of one fragment
  int fragments = 1;  // they divide the period
  int delay = 0;      // steps after which a result is due: at most the time between two fragments
  Nanoseconds step{1'000'000};
  Nanoseconds exchange{4'000'000};  // of one fragment
  Bytes bytes{0};                   // that each rank brings to one exchange
};
/// Items are rank * steps + step. A result is due `delay` steps after its exchange began, behind
/// that step and before the next exchange begins; what is left is due behind the last step.
TUTTI_RUNTIME_API Timeline outer_timeline(const OuterTimelineSpec& spec);

/// The share of the time in which steps are computed: 1 if exchanges are hidden.
TUTTI_RUNTIME_API double utilisation(const OuterTimelineSpec& spec);
/// The least delay that hides an exchange: its time over that of a step, rounded up.
TUTTI_RUNTIME_API int hiding_delay(const OuterTimelineSpec& spec);

}  // namespace tutti::runtime
