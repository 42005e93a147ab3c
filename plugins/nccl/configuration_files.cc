// Settings that an administrator or a user wrote for NCCL: lines NAME=VALUE of ~/.nccl.conf (or of
// the file that NCCL_CONF_FILE names, instead) and of /etc/nccl.conf. The environment wins over
// both, and the first file over the second. Names that Tutti does not read are passed over.
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
#include <utility>

#include "plugins/nccl/configuration_lines.h"
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

void read_file(const std::string& path) {
  constexpr size_t kMostBytes = 1 << 20;  // more is no file of settings
  const File file = open_regular(path);
  if (file == nullptr) return;
  std::string text(kMostBytes, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  for (const ConfigurationLine& line : read_configuration_lines(text)) {
    tuttiSetDefault(line.name.c_str(), line.value.c_str(), path.c_str());
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
