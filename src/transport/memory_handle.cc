#include "src/transport/memory_handle.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <vector>

#include "src/base/io.h"
#include "src/base/words.h"

namespace tutti::transport {
namespace {

constexpr std::string_view kTag = "tutti-memory-1";
constexpr size_t kMaxHandleBytes = 160;

}  // namespace

Result<std::string> describe_memory(const Arena& memory) {
  struct stat file {};
  if (memory.fd() < 0 || fstat(memory.fd(), &file) < 0) {
    return Status::invalid_argument("only memory from an arena has a handle");
  }
  char text[kMaxHandleBytes];
  const int bytes = std::snprintf(
      text, sizeof text, "%s %d %d %" PRIx64 " %" PRIx64 " %" PRIx64 " %zx", kTag.data(), getpid(),
      memory.fd(), uint64_t{file.st_dev}, uint64_t{file.st_ino},
      reinterpret_cast<uint64_t>(memory.data()), memory.bytes());
  return std::string(text, static_cast<size_t>(bytes));
}

Result<MemoryHandle> parse_memory(std::string_view handle) {
  const std::vector<std::string_view> words = split(handle.substr(0, kMaxHandleBytes), ' ');
  const Status malformed = Status::invalid_argument("this is not a handle of registered memory");
  if (words.size() != 7 || words[0] != kTag) return malformed;
  const auto process = parse_integer<int32_t>(words[1]);
  const auto fd = parse_integer<int32_t>(words[2]);
  const auto device = parse_integer<uint64_t>(words[3], 16);
  const auto inode = parse_integer<uint64_t>(words[4], 16);
  const auto address = parse_integer<uint64_t>(words[5], 16);
  const auto bytes = parse_integer<uint64_t>(words[6], 16);
  const bool numbers = process && fd && device && inode && address && bytes;
  if (!numbers || *process <= 0 || *fd < 0 || *bytes == 0) return malformed;
  return MemoryHandle{*process, *fd, *device, *inode, *address, *bytes};
}

bool names_file(const MemoryHandle& handle, int fd) {
  struct stat file {};
  return fstat(fd, &file) == 0 && file.st_dev == handle.device && file.st_ino == handle.inode;
}

}  // namespace tutti::transport
