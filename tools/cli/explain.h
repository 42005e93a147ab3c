// `tutti explain`: what a call would run here, and why everything else lost.
#pragma once

namespace tutti::cli {

/// argv[1] is the collective; --ranks, sizes and types as in `tutti perf`.
int explain_main(int argc, char** argv);

}  // namespace tutti::cli
