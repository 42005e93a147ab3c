// The settings of the environment, with the names in them looked up: src/base knows how values are
// written, and only here is known which transports and algorithms exist.
//
// Errors:  those of Config::from_environment(); kInvalidArgument for a name that nothing has says
//          where it was given, what is nearest and what there is.
// Threads: pure functions.
#pragma once

#include <span>

#include "src/base/config.h"
#include "src/base/status.h"

namespace tutti::registry {

/// Reads the settings, for the library and for `tutti env`.
Result<Config> read_settings(const Variables& variables = process_environment(),
                             std::span<const Default> defaults = {});

}  // namespace tutti::registry
