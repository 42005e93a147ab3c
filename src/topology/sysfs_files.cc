#include "src/topology/sysfs_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "src/base/words.h"
#include "src/topology/processor_sets.h"

namespace tutti::topology {

std::optional<std::string> read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return std::string(trim(line));
}

std::optional<std::vector<uint32_t>> read_set(const std::string& path) {
  const auto line = read_line(path);
  return line ? read_list(*line) : std::nullopt;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tutti::topology
