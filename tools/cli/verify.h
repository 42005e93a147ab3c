// `tutti verify`: proves what is registered, or a schedule text, and prints the counter-example
// where it cannot.
//
// Errors: exit status 0, 1 if something is refused, 2 for a wrong command line.
#pragma once

namespace tutti::cli {

int verify_main(int argc, char** argv);

}  // namespace tutti::cli
