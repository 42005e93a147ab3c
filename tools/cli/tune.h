// `tutti tune`: what the pieces of calls on streams of devices cost on this machine's board, as a
// model for TUTTI_TUNING.
//
// Errors: exit status 0, 1 where the board cannot be measured, 2 for a wrong command line, 77
// without a device.
#pragma once

namespace tutti::cli {

int tune_main(int argc, char** argv);

}  // namespace tutti::cli
