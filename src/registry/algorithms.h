// The algorithms the library is built with: an immutable table, one line of algorithms.inc for
// each.
//
// Ordering: by collective as listed in algorithms.inc. Lifetime: the table outlives everybody.
// Threads: any.
#pragma once

#include <span>
#include <string_view>

#include "src/schedule/algorithm.h"

namespace tutti::registry {

std::span<const schedule::Algorithm> algorithms();

/// Null if the collective has no algorithm of that name.
const schedule::Algorithm* find(schedule::Collective collective, std::string_view name);

}  // namespace tutti::registry
