// `tutti doctor`: whether this host is fit for jobs of several hosts, and what to do where not.
//
// Errors: exit status 0, 1 if something is wrong, 2 for a wrong command line.
#pragma once

namespace tutti::cli {

int doctor_main(int argc, char** argv);

}  // namespace tutti::cli
