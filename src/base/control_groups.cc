#include "src/base/control_groups.h"

#include <algorithm>
#include <fstream>
#include <istream>

#include "src/base/words.h"

namespace tutti {

std::vector<std::string> group_folders(std::istream& groups, const std::string& mounts,
                                       std::string_view controller) {
  std::vector<std::string> folders;
  for (std::string line; std::getline(groups, line);) {
    // "1:cpu,cpuacct:/path", and a path may hold anything: "0::/pod7.slice:cri-containerd:5f3".
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view listed = std::string_view(line).substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (!path.starts_with('/')) continue;
    const std::vector<std::string_view> controllers = split(listed, ',');
    const bool is_first_version = std::ranges::count(controllers, controller) > 0;
    if (!is_first_version && !listed.empty()) continue;
    const std::string root = mounts + (is_first_version ? "/" + std::string(controller) : "");
    // Where a container sees its own groups only the path leads nowhere, and the root is its own.
    for (; path.size() > 1; path.resize(path.rfind('/'))) folders.push_back(root + path);
    folders.push_back(root);
  }
  return folders;
}

std::vector<std::string> group_folders(std::string_view controller) {
  std::ifstream groups("/proc/self/cgroup");
  return group_folders(groups, "/sys/fs/cgroup", controller);
}

}  // namespace tutti
