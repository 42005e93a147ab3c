// Which schedules streams of devices may do in two lanes that take turns.
//
// Threads: pure. Errors: none.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::comm {

/// Whether one queue can run the lanes of all ranks in turns: no rank that has told something
/// awaits what its peer tells in a later turn than the rank's own. Lanes behind that wait would
/// hold back what the peer needs for it. `one_way` as in plan::Plan.
bool takes_turns_alike(const schedule::Algorithm& algorithm, const schedule::Parameters& parameters,
                       bool one_way);

}  // namespace tutti::comm
