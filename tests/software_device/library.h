// Where the software device lies, for programs in the folder of the tests' programs.
#pragma once

#include <filesystem>

namespace softdev {

inline std::filesystem::path software_device_library() {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path build = program.parent_path().parent_path().parent_path();
  return build / "lib" / "software_device" / "libcuda.so.1";
}

}  // namespace softdev
