// `tutti perf`: measures the library's collectives.
#pragma once

#include <string>
#include <vector>

namespace tutti::perf {

/// argv[0] is "perf", argv[1] a collective, "compare", "flags" or, for hosts.h, "agent".
int perf_main(int argc, char** argv);

/// One process of a job that `tutti perf --hosts` has started: `arguments` as for
/// collective_main().
int launched_main(const std::vector<std::string>& arguments);

/// argv[0] is the collective's name or its program of nccl-tests; flags follow.
int collective_main(int argc, char** argv);

}  // namespace tutti::perf
