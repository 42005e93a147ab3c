// `tutti algorithms`: what is registered, what it costs and what the verifier says of it.
//
// Errors: exit status 0, 1 if an algorithm is refused, 2 for a wrong command line.
#pragma once

namespace tutti::cli {

/// argv[1] may be --markdown: the contents of docs/algorithms.md.
int algorithms_main(int argc, char** argv);

}  // namespace tutti::cli
