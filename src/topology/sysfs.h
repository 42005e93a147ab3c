// Processors, caches and memory as the files of Linux below /sys/devices/system tell them.
//
// Threads: any; it reads files. Errors: kSystemError where they do not say which processors are
// there. Anything else that is missing is left out, with a note.
#pragma once

#include <string>

#include "src/base/status.h"
#include "src/topology/host_tree.h"

namespace tutti::topology {

/// `root` stands before "/sys": "" for this host, another folder for tests.
Result<HostFacts> read_sysfs(const std::string& root);

}  // namespace tutti::topology
