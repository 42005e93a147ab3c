// What an administrator or a user wrote for NCCL: lines NAME=VALUE of ~/.nccl.conf (or of the file
// that NCCL_CONF_FILE names, instead) and of /etc/nccl.conf. The environment wins over both, and
// the first file over the second. Names that Tutti does not read are passed over.
//
// Runs when the library is loaded, before anything can have asked for a setting. NCCL puts the
// lines into the environment of the process; here they stay in the library, since other threads may
// be reading the environment when a program loads it late.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "tutti/tutti.h"

namespace tutti::nccl {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

/// Null for what is no regular file: a pipe would hold up the program.
File open_regular(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return nullptr;
  struct stat found = {};
  File file(fdopen(fd, "r"));
  if (file == nullptr) close(fd);
  return file != nullptr && fstat(fd, &found) == 0 && S_ISREG(found.st_mode) ? std::move(file)
                                                                             : nullptr;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

void read_line(std::string_view line, const std::string& path) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return;
  const std::string name(trimmed(line.substr(0, equals)));
  const std::string value(trimmed(line.substr(equals + 1)));
  if (name.rfind("NCCL_", 0) == 0) tuttiSetDefault(name.c_str(), value.c_str(), path.c_str());
}

void read_file(const std::string& path) {
  constexpr int kLongestLine = 4096;
  const File file = open_regular(path);
  char line[kLongestLine];
  while (file != nullptr && std::fgets(line, sizeof line, file.get()) != nullptr) {
    read_line(line, path);
  }
}

[[gnu::constructor]] void read_files() {
  const char* const named = std::getenv("NCCL_CONF_FILE");
  const char* const home = std::getenv("HOME");
  if (named != nullptr && *named != '\0') {
    read_file(named);
  } else if (home != nullptr && *home != '\0') {
    read_file(std::string(home) + "/.nccl.conf");
  }
  read_file("/etc/nccl.conf");
}

}  // namespace
}  // namespace tutti::nccl
