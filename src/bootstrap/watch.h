// One sleeping thread that notices when peers' processes go away.
//
// A descriptor given to add() is a link's liveness_fd(). When it hangs up, the callback runs on the
// watch's thread within milliseconds, once, and asks the link's status() what happened: a peer that
// left in good order is no failure. A socket carries data, so only its hang-up counts; any other
// descriptor was made for this purpose and has news when it is readable. Callbacks are short and
// never wait. A visit of attend() says for how long the descriptor shall rest: it has to be looked
// at again, or its input is what another thread is about to take and should not keep this one
// awake.
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
  /// Returns for how many nanoseconds nothing shall be heard of the descriptor. 0: of a hang-up,
  /// never again; of input, at once.
  using Visit = std::function<uint64_t()>;

  static Result<std::unique_ptr<Watch>> create();
  /// Ends the thread; no callback runs afterwards.
  ~Watch();

  Status add(int fd, Callback callback);
  enum class News { kHangUp, kInput };
  /// Visits once the descriptor has hung up, or whenever it is readable until it has been read.
  Status attend(int fd, News news, Visit visit);
  void remove(int fd);

 private:
  struct Entry {
    int fd = -1;
    uint32_t events = 0;  // EPOLLONESHOT: of the hang-up
    Visit visit;
  };

  Watch(Fd epoll, Fd bell) : epoll_(std::move(epoll)), bell_(std::move(bell)) {}

  void run();
  void announce(uint64_t ticket);
  void rest(uint64_t ticket, uint64_t duration_ns);
  int wake_rested();

  const Fd epoll_;
  const Fd bell_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::map<uint64_t, Entry> entries_;          // by ticket: a descriptor number may come again
  uint64_t next_ticket_ = 1;                   // 0 is the bell
  uint64_t running_ = 0;                       // ticket of the visit that runs
  std::multimap<uint64_t, uint64_t> resting_;  // tickets by the time at which they have rested
  std::thread thread_;
};

}  // namespace tutti::bootstrap
