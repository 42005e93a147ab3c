// `tutti verify --plans`: lowers what is registered in every way the library may, and proves the
// plans.
//
// Errors: exit status 0, 1 if a plan is refused, 2 for a wrong command line.
#pragma once

namespace tutti::cli {

/// Arguments: --ranks N or N-M, and the algorithm: "all_reduce" or "all_reduce/ring"; none: all.
int verify_plans_main(int argc, char** argv);

}  // namespace tutti::cli
