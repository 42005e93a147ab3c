#include "tests/software_device/device/ipc.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace softdev {
namespace {

constexpr uint64_t kNameMagic = 0x6564'7466'6f73'6970;

struct Named {
  uint64_t magic;
  int process;
  int fd;
  uint64_t started;  // of the process: its number may be another one's by now
};
static_assert(sizeof(Named) <= sizeof(CUipcMemHandle));

/// In ticks since the machine started. 0: there is no such process.
uint64_t start_of(int process) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  FILE* file = std::fopen(path, "re");
  if (file == nullptr) return 0;
  char text[1024] = "";
  const size_t read = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[read] = '\0';
  const char* behind_name = std::strrchr(text, ')');
  unsigned long long start = 0;
  constexpr const char* kFields =
      ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu";
  if (behind_name != nullptr) std::sscanf(behind_name, kFields, &start);
  return start;
}

}  // namespace

void name_memory(const Physical& physical, char* handle) {
  const Named named{kNameMagic, getpid(), physical.fd, start_of(getpid())};
  std::memset(handle, 0, sizeof(CUipcMemHandle));
  std::memcpy(handle, &named, sizeof named);
}

CUresult open_named(const char* handle, std::shared_ptr<Physical>* physical) {
  Named named{};
  std::memcpy(&named, handle, sizeof named);
  if (named.magic != kNameMagic) return kErrorInvalidValue;
  if (named.process == getpid()) return kErrorInvalidContext;
  if (start_of(named.process) != named.started) return kErrorMapFailed;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", named.process, named.fd);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return kErrorMapFailed;
  *physical = Physical::import(fd);
  return *physical != nullptr ? kSuccess : kErrorInvalidValue;
}

}  // namespace softdev
