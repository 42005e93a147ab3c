// A forked child must not keep some things of its parent.
//
// Descriptors: as long as the child holds a socket, the peer does not learn that the parent died,
// and a process that connects to a listener waits for one that never accepts. Linux closes on exec,
// not on fork, so a handler of pthread_atfork replaces them in the child: the numbers stay taken,
// since the child has the parent's objects too, and lead nowhere.
//
// A fork may come at any time, in a thread of the program's. So such a descriptor is a KeptFd from
// the call that makes it to the one that closes it, whoever has it meanwhile.
//
// Nothing can be done about a child made without fork()'s handlers (vfork, posix_spawn, clone): it
// ends the state by exec.
//
// Owns:    a KeptFd closes its descriptor.
// Threads: any; a fork waits for those that are about to make or close one.
// Errors:  none.
#pragma once

#include <utility>

#include "src/base/io.h"
#include "src/base/mutex.h"

namespace tutti {

/// A descriptor that closes itself, and that no forked child has.
class KeptFd {
 public:
  KeptFd() = default;
  /// Keeps the descriptor that `make` returns, which makes one system call that does not wait. If
  /// `make` returns -1, errno says why.
  template <class Make>
  static KeptFd open(Make make) {
    const MutexLock no_fork(forks());
    KeptFd made;
    made.keep(make());
    return made;
  }
  /// A child that was forked before has it.
  explicit KeptFd(Fd fd) : KeptFd(open([&fd] { return fd.release(); })) {}
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
  static Mutex& forks();  // no child is forked while it is held
  void keep(int fd) TUTTI_REQUIRES(forks());

  int fd_ = -1;
};

/// pthread_atfork. `before` runs while the descriptors' lock is still free: a thread that has a
/// lock which `before` takes may make and close a KeptFd. `in_child` may call only what a signal
/// handler may.
void at_fork(void (*before)(), void (*in_parent)(), void (*in_child)());

}  // namespace tutti
