// One sleeping thread that notices when peers' processes go away.
//
// A descriptor given to add() is a link's liveness_fd(). When it hangs up, the callback runs on the
// watch's thread within milliseconds, once, and asks the link's status() what happened: a peer that
// left in good order is no failure. A socket carries data, so only its hang-up counts; any other
// descriptor was made for this purpose and has news when it is readable. Callbacks are short and
// never wait.
//
// Owns: one thread, an epoll set; no descriptor that is watched. Threads: add() and remove() from
// any; remove() returns when the callback is not running and never will, so that what it uses may
// go. From within a callback, remove() of its own descriptor returns at once. Errors: kSystemError.
// Lifetime: descriptors are removed before they are closed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "src/base/io.h"
#include "src/base/status.h"

namespace tutti::bootstrap {

class Watch {
 public:
  using Callback = std::function<void()>;

  static Result<std::unique_ptr<Watch>> create();
  /// Ends the thread; no callback runs afterwards.
  ~Watch();

  /// `repeat`: the callback runs whenever the descriptor is readable, until it has read it: a
  /// timer.
  Status add(int fd, Callback callback, bool repeat = false);
  void remove(int fd);

 private:
  struct Entry {
    int fd = -1;
    Callback callback;
  };

  Watch(Fd epoll, Fd bell) : epoll_(std::move(epoll)), bell_(std::move(bell)) {}

  void run();
  void announce(uint64_t ticket);

  const Fd epoll_;
  const Fd bell_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::map<uint64_t, Entry> entries_;  // by ticket: a descriptor number may come again
  uint64_t next_ticket_ = 1;           // 0 is the bell
  uint64_t running_ = 0;               // ticket of the callback that runs
  std::thread thread_;
};

}  // namespace tutti::bootstrap
