#include "tests/kill/leaks.h"

#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tutti::kill_test {
namespace {

namespace fs = std::filesystem;

std::vector<std::pair<std::string, std::string>> descriptors_of(const std::string& pid) {
  std::vector<std::pair<std::string, std::string>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/" + pid + "/fd", error)) {
    const fs::path target = fs::read_symlink(entry.path(), error);
    if (!error) found.emplace_back(entry.path().filename().string(), target.string());
  }
  return found;
}

}  // namespace

std::set<std::string> visible_files() {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev/shm", error)) {
    names.insert(entry.path().string());
  }
  for (const auto& entry : fs::directory_iterator("/tmp", error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("tutti") && !entry.is_directory(error)) names.insert(entry.path());
  }
  return names;
}

std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> inodes;
  for (const auto& [fd, target] : descriptors_of(std::to_string(pid))) {
    constexpr size_t kPrefix = 8;  // "socket:["
    if (target.starts_with("socket:[")) {
      inodes.insert(target.substr(kPrefix, target.size() - kPrefix - 1));
    }
  }
  return inodes;
}

std::vector<std::string> living_unix_sockets(const std::set<std::string>& inodes) {
  std::vector<std::string> living;
  std::ifstream table("/proc/net/unix");
  std::string line;
  std::getline(table, line);  // the heading
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string word;
    constexpr int kInodeColumn = 7;
    for (int i = 0; i < kInodeColumn; ++i) words >> word;
    if (inodes.contains(word)) living.push_back(line);
  }
  return living;
}

std::vector<std::string> memory_of_this_process() {
  std::vector<std::string> found;
  for (const auto& [fd, target] : descriptors_of("self")) {
    if (target.find("memfd:tutti") != std::string::npos) found.push_back("fd " + fd + " " + target);
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:tutti") != std::string::npos) found.push_back("mapping " + line);
  }
  return found;
}

bool has_children() { return !(waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD); }

}  // namespace tutti::kill_test
