// Names registered memory (an arena) to the other ranks of its host: what Mapped::import() takes.
//
// A handle is text without secrets. It names the owner's process and descriptor; an importer in
// another process fetches that descriptor (pidfd_getfd), compares the file's identity, since
// descriptor numbers are reused, and adopts it as an arena. So does a thread of the owner's
// process, which may outlive the owner's mapping. Errors: kInvalidArgument on anything that
// describe() did not write. Threads: no state. Lifetime: a handle is good as long as the arena it
// was made from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/transport/arena.h"

namespace tutti::transport {

struct MemoryHandle {
  int64_t process = 0;  // as the owner sees itself
  int fd = -1;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t address = 0;
  size_t bytes = 0;
};

/// A name for `memory`.
Result<std::string> describe_memory(const Arena& memory);
Result<MemoryHandle> parse_memory(std::string_view handle);
/// Whether `fd` is the file that the handle names.
bool names_file(const MemoryHandle& handle, int fd);

}  // namespace tutti::transport
