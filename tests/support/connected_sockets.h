// The connections that a process holds, as the kernel knows them.
#pragma once

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

namespace tutti::testing_support {

/// The connected sockets of this process over IP, by their numbers in the kernel.
inline std::set<ino_t> connected_sockets() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  constexpr rlim_t kMostFds = 4096;
  std::set<ino_t> found;
  for (int fd = 0; fd < static_cast<int>(std::min(limit.rlim_cur, kMostFds)); ++fd) {
    sockaddr_storage address{};
    socklen_t bytes = sizeof address;
    struct stat file {};
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &bytes) < 0) continue;
    const bool is_ip = address.ss_family == AF_INET || address.ss_family == AF_INET6;
    if (is_ip && fstat(fd, &file) == 0) found.insert(file.st_ino);
  }
  return found;
}

}  // namespace tutti::testing_support
