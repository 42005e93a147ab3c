// Runs a program of the tests on the software device.
//
// Threads: one, as it changes the environment while the program starts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/subprocess.h"

namespace softdev {

/// Of SOFTDEV_* variables: name without the prefix, value.
using SoftdevSettings = std::vector<std::pair<std::string, std::string>>;

/// As run_program(), with the software device as the first driver that the program finds.
tutti::testing_support::Outcome run_on_software_device(const std::string& program,
                                                       const std::vector<std::string>& arguments,
                                                       const SoftdevSettings& settings);

}  // namespace softdev
