// `tutti env`: every setting with its value, where the value came from, and what it does.
//
// Errors: exit status 0, 1 if a value is not understood, 2 for a wrong command line.
#pragma once

namespace tutti::cli {

int env_main(int argc, char** argv);

}  // namespace tutti::cli
