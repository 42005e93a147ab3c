// Descriptors that a forked child must not hold: as long as it holds a socket, the peer does not
// learn that the parent died, and who connects to a listener waits for a process that never
// accepts. Linux closes on exec, not on fork, so a handler of pthread_atfork replaces them in the
// child: the numbers stay taken, since the child has the parent's objects too, and lead nowhere.
//
// Nothing can be done about a child made without fork()'s handlers (vfork, posix_spawn, clone): it
// ends the state by exec.
//
// Owns: nothing; the descriptor outlives the object. Threads: any; a fork waits for those that are
// about to add or remove one. Errors: none.
#pragma once

namespace tutti {

class KeptFromForks {
 public:
  explicit KeptFromForks(int fd);
  ~KeptFromForks();
  KeptFromForks(const KeptFromForks&) = delete;
  KeptFromForks& operator=(const KeptFromForks&) = delete;

 private:
  const int fd_;
};

}  // namespace tutti
