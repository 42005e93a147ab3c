// The hazard pass: which message may skip the staging copy.
//
// A SEND has value semantics; PULL and PUSH read or write user memory at another moment than the
// step says. They are used only where no step could see the difference:
//   PULL  the source block is not written by any later step of the sender, or by none before the
//         sender has heard from every reader that it has read.
//   PUSH  the target is dead from the receiver's entry on: no earlier step of the receiver touches
//         it, or only a PULL by the pushing rank itself, consumed before the push.
// "Later" and "earlier" are what the lanes of a rank and `after` say (step_order.h): steps of two
// lanes that nothing joins are neither. Everything else is staged. The plan verifier checks the
// outcome. Of a rooted collective only the root knows whether its call is in place, so there the
// answers must hold for both placements: they differ in either direction, because in place a copy
// to where the block lies already is no access.
#pragma once

#include "src/plan/traffic.h"

namespace tutti::plan {

void choose_mechanisms(Traffic& traffic, Mode mode, bool in_place);

}  // namespace tutti::plan
