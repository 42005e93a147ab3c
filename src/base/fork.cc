#include "src/base/fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace tutti {
namespace {

struct Kept {
  Kept();

  Mutex mutex;  // held across a fork
  std::vector<int> fds;
  int nowhere = -1;  // no socket: whoever uses it gets an error; made with the first one to keep
};

Kept& kept() {
  // tidy: allow mutable (pthread_atfork's handlers have no argument); never freed: a fork may come
  // while the program ends
  static auto* const kept = new Kept;
  return *kept;
}

// These hold the mutex from one handler to another, which clang cannot follow.
void before_fork() TUTTI_LOCKS_UNCHECKED { kept().mutex.lock(); }
void after_fork_in_parent() TUTTI_LOCKS_UNCHECKED { kept().mutex.unlock(); }

// Only what may be called in a signal handler: other threads held their locks.
void after_fork_in_child() TUTTI_LOCKS_UNCHECKED {
  for (const int fd : kept().fds) {
    if (kept().nowhere < 0) {
      close(fd);
    } else {
      dup3(kept().nowhere, fd, O_CLOEXEC);
    }
  }
  kept().mutex.unlock();
}

Kept::Kept() { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

/// When the library is loaded: made at its first use, it could be half made for ever in the child
/// of a fork beside that.
[[gnu::constructor]] void make_kept() { (void)kept(); }

}  // namespace

void at_fork(void (*before)(), void (*in_parent)(), void (*in_child)()) {
  (void)kept();  // the handlers that come last run first before a fork
  pthread_atfork(before, in_parent, in_child);
}

Mutex& KeptFd::forks() { return kept().mutex; }

void KeptFd::keep(int fd) {
  fd_ = above_standard_streams(fd);
  if (fd_ < 0) return;
  if (kept().nowhere < 0) {
    kept().nowhere = above_standard_streams(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  }
  kept().fds.push_back(fd_);
}

void KeptFd::reset() {
  if (fd_ < 0) return;
  const MutexLock no_fork(forks());
  std::erase(kept().fds, fd_);
  close(std::exchange(fd_, -1));
}

}  // namespace tutti
