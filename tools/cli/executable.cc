#include "tools/cli/executable.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

namespace tutti::cli {
namespace {

bool is_executable(const std::string& path) {
  struct stat found = {};
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

bool is_privileged(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return false;
  const bool other_user = (found.st_mode & S_ISUID) != 0 && found.st_uid != geteuid();
  const bool other_group = (found.st_mode & S_ISGID) != 0 && found.st_gid != getegid();
  return other_user || other_group;
}

/// Whether the program header table of a 64-bit file names a dynamic loader.
Preloading loader_of(std::ifstream& file) {
  Elf64_Ehdr header = {};
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return Preloading::kUnknown;
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return Preloading::kUnknown;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment = {};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * header.e_phentsize));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) return Preloading::kUnknown;
    if (segment.p_type == PT_INTERP) return Preloading::kPossible;
  }
  return Preloading::kStatic;
}

std::string interpreter_of(std::ifstream& file) {
  std::string line;
  file.seekg(2);
  std::getline(file, line);
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return line.substr(begin, line.find_first_of(" \t\r", begin) - begin);
}

Preloading judge(const std::string& path, int scripts_left) {
  if (is_privileged(path)) return Preloading::kPrivileged;
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  if (!file.read(magic, sizeof magic)) return Preloading::kUnknown;
  if (std::memcmp(magic, ELFMAG, SELFMAG) == 0) return loader_of(file);
  if (magic[0] != '#' || magic[1] != '!' || scripts_left == 0) return Preloading::kUnknown;
  return judge(interpreter_of(file), scripts_left - 1);
}

}  // namespace

std::string find_command(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), F_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  while (true) {
    const size_t colon = rest.find(':');
    const std::string folder(rest.substr(0, colon));
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_executable(candidate)) return candidate;
    if (colon == std::string_view::npos) return "";
    rest.remove_prefix(colon + 1);
  }
}

Preloading preloading_of(const std::string& path) {
  constexpr int kNestedScripts = 4;
  return judge(path, kNestedScripts);
}

}  // namespace tutti::cli
