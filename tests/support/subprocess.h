// Starts a program of the tests and keeps what it prints.
//
// Owns: the child; when run_program returns it is gone, with its process group. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::testing_support {

struct Outcome {
  int exit_code = -1;  // -1: ended by a signal, or not started
  bool timed_out = false;
  std::string output;  // stdout and stderr, in the order they were written
};

/// `program` is a file name in the folder of the tests' programs.
Outcome run_program(const std::string& program, const std::vector<std::string>& arguments,
                    uint64_t limit_seconds);

}  // namespace tutti::testing_support
