// Finds what a child inherits that is forked now.
#pragma once

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tutti::testing_support {

/// Whether `fd` is a socket there, too.
inline bool a_child_has_socket(int fd) {
  const pid_t child = fork();
  if (child == 0) {
    int type = 0;
    socklen_t bytes = sizeof type;
    _exit(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 ? 1 : 0);
  }
  int status = 0;
  return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

}  // namespace tutti::testing_support
