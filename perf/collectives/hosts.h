// `tutti perf --hosts`: the ranks of a measurement on several hosts, started from one place.
#pragma once

#include <string>
#include <vector>

#include "perf/collectives/options.h"

namespace tutti::perf {

/// Starts an agent (host_agent.h) on every host by the launcher, has it start the host's ranks, and
/// passes their output on; what a host says on its error output begins with its name. Ends all of
/// them when one fails and the others do not end by themselves, and on SIGINT and SIGTERM.
/// `arguments` is the command line. Returns the greatest exit code; 128 + the signal that ended it.
/// Errors: PerfError that names a host on which nothing could be started, and says what to do.
int hosts_main(const PerfOptions& options, const std::vector<std::string>& arguments);

/// The command line without the flags of --hosts, for the ranks.
std::vector<std::string> without_hosts(const std::vector<std::string>& arguments);

}  // namespace tutti::perf
