// What a forked child must not have of its parent.
//
// Descriptors: as long as the child holds a socket, the peer does not learn that the parent died,
// and who connects to a listener waits for a process that never accepts. Linux closes on exec, not
// on fork, so a handler of pthread_atfork replaces them in the child: the numbers stay taken, since
// the child has the parent's objects too, and lead nowhere.
//
// Nothing can be done about a child made without fork()'s handlers (vfork, posix_spawn, clone): it
// ends the state by exec.
//
// Owns: nothing; the descriptor outlives the object. Threads: any; a fork waits for those that are
// about to add or remove one. Errors: none.
#pragma once

#include <utility>

namespace tutti {

class KeptFromForks {
 public:
  explicit KeptFromForks(int fd);
  ~KeptFromForks();
  KeptFromForks(KeptFromForks&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  KeptFromForks& operator=(KeptFromForks&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

 private:
  int fd_;
};

struct ForkHandlers {
  void (*before)();
  void (*in_parent)();
  void (*in_child)();  // only what may be called in a signal handler
};

/// To run around every fork from now on. `before` runs while the descriptors' lock is still free:
/// a thread that has a lock which `before` takes may keep a descriptor from forks.
void at_fork(const ForkHandlers& handlers);

}  // namespace tutti
