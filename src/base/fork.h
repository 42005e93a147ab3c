// What a forked child must not have of its parent.
//
// Descriptors: as long as the child holds a socket, the peer does not learn that the parent died,
// and who connects to a listener waits for a process that never accepts. Linux closes on exec, not
// on fork, so a handler of pthread_atfork replaces them in the child: the numbers stay taken, since
// the child has the parent's objects too, and lead nowhere.
//
// A fork may come at any time, in a thread of the program's. So such a descriptor is a KeptFd from
// the call that makes it to the one that closes it, whoever has it meanwhile.
//
// Nothing can be done about a child made without fork()'s handlers (vfork, posix_spawn, clone): it
// ends the state by exec.
//
// Owns: a KeptFd closes its descriptor. Threads: any; a fork waits for those that are about to make
// or close one. Errors: none.
#pragma once

#include <utility>

#include "src/base/io.h"

namespace tutti {

/// No child is forked while it exists.
class ForkPause {
 public:
  ForkPause();
  ForkPause(const ForkPause&) = delete;
  ForkPause& operator=(const ForkPause&) = delete;
  ~ForkPause();
};

/// A descriptor that closes itself, and that no forked child has.
class KeptFd {
 public:
  KeptFd() = default;
  /// What `make` makes: a system call that does not wait. -1: none, and errno says why.
  template <class Make>
  static KeptFd open(Make make) {
    const ForkPause pause;
    return KeptFd(make(), pause);
  }
  /// A child that was forked before has it.
  explicit KeptFd(Fd fd) : KeptFd(fd.release(), ForkPause()) {}
  KeptFd(KeptFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  KeptFd& operator=(KeptFd&& other) noexcept {
    if (this == &other) return *this;
    reset();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  ~KeptFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset();

 private:
  KeptFd(int fd, const ForkPause& pause);

  int fd_ = -1;
};

struct ForkHandlers {
  void (*before)();
  void (*in_parent)();
  void (*in_child)();  // only what may be called in a signal handler
};

/// To run around every fork from now on. `before` runs while the descriptors' lock is still free:
/// a thread that has a lock which `before` takes may make and close a KeptFd.
void at_fork(const ForkHandlers& handlers);

}  // namespace tutti
