// The sources of levels that Tutti is built with: a file in src/comm/level_sources and a line of
// level_sources.inc each. Threads: constant.
#pragma once

#include <span>

#include "src/comm/level_source.h"

namespace tutti::registry {

std::span<const comm::LevelSourceEntry> level_sources();

}  // namespace tutti::registry
