// The kinds of devices that Tutti is built with. A new one is a folder src/engines/<name>/ and a
// row of the table. Threads: constant.
#pragma once

#include "src/exec/device.h"

namespace tutti::registry {

/// The kind that this process has: the first whose driver is loaded. Where none is, the last of the
/// table, which says of itself that it is not present.
exec::Device& device();

}  // namespace tutti::registry
