// This host as hwloc sees it, by its XML (lstopo --of xml), so that none of its types is needed.
//
// Threads: any. Errors: kUnsupported where the library is not there, "line N: why" for its text.
#pragma once

#include <string_view>

#include "src/base/status.h"
#include "src/topology/host_tree.h"

namespace tutti::topology {

/// Loads libhwloc.so.15 (hwloc 2), asks it for everything, and unloads it.
Result<HostFacts> ask_hwloc();

/// A text of hwloc's XML of version 2.
Result<HostFacts> read_hwloc(std::string_view xml);

}  // namespace tutti::topology
