// `tutti run -- CMD`: starts a program with the drop-in libnccl.so.2 in place of NCCL.
//
// Errors: the exit status is the program's; ended by a signal, so does `tutti run`. 125: the
// program did not load the drop-in, or cannot; 126: it cannot be executed; 127: it was not found;
// 2: a wrong command line.
#pragma once

namespace tutti::cli {

int run_main(int argc, char** argv);

}  // namespace tutti::cli
