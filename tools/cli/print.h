// `tutti print`: an algorithm's schedule as text, and the plans it is lowered to.
#pragma once

namespace tutti::cli {

/// argv[1] is COLLECTIVE/ALGORITHM.
int print_main(int argc, char** argv);

}  // namespace tutti::cli
