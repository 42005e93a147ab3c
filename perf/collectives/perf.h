// `tutti perf`: measures the library's collectives.
#pragma once

namespace tutti::perf {

/// argv[0] is "perf", argv[1] a collective, "compare" or "flags".
int perf_main(int argc, char** argv);

/// argv[0] is the collective's name or its program of nccl-tests; flags follow.
int collective_main(int argc, char** argv);

}  // namespace tutti::perf
