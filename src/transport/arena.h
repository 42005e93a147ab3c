// The memory a rank offers to the ranks of its host: a sealed memfd. Sparse: a page costs memory
// when it is first touched.
//
// Owns: the descriptor and the mapping, which under the thread sanitizer all arenas of one file in
// a process share. Units: bytes. Errors: Status with errno's text. It needs neither /dev/shm nor a
// file system.
#pragma once

#include <cstddef>
#include <string>

#include "src/base/status.h"

namespace tutti::transport {

class Arena {
 public:
  /// `label` shows up in /proc/PID/maps.
  static Result<Arena> create(const std::string& label, size_t bytes);
  /// Maps a descriptor received from a peer; checks its seals and size. Takes the descriptor.
  static Result<Arena> adopt(int fd, size_t bytes);

  Arena() = default;
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  int fd() const { return fd_; }  // -1: closed
  /// The memory stays; nobody can be given it by this process any more.
  void close_descriptor();

 private:
  Arena(int fd, std::byte* data, size_t bytes) : fd_(fd), data_(data), bytes_(bytes) {}

  int fd_ = -1;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tutti::transport
