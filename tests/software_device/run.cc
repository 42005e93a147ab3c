#include "tests/software_device/run.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "tests/software_device/library.h"

namespace softdev {

tutti::testing_support::Outcome run_on_software_device(const std::string& program,
                                                       const std::vector<std::string>& arguments,
                                                       const SoftdevSettings& settings) {
  constexpr uint64_t kLimitSeconds = 120;
  const std::filesystem::path folder = software_device_library().parent_path();
  setenv("LD_LIBRARY_PATH", folder.c_str(), 1);
  for (const auto& [name, value] : settings) setenv(("SOFTDEV_" + name).c_str(), value.c_str(), 1);
  auto outcome = tutti::testing_support::run_program(program, arguments, kLimitSeconds);
  for (const auto& [name, value] : settings) unsetenv(("SOFTDEV_" + name).c_str());
  unsetenv("LD_LIBRARY_PATH");
  return outcome;
}

}  // namespace softdev
