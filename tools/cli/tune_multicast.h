// How fast the switch between this host's devices folds, for `tutti tune`: all devices fold a part
// each of memory of all of them, at the same time.
//
// Threads: the caller's. Errors: kUnsupported: there is one device only, or one without multicast,
// or this build has no kernels; of the driver's calls kSystemError.
#pragma once

#include "src/base/status.h"

namespace tutti::cli {

/// us for 1e6 bytes of what crosses a device's link one way: the median of so many rows of folds.
Result<double> measure_multicast(int repeats);

}  // namespace tutti::cli
