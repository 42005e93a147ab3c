// One sleeping thread that looks after descriptors: of links, so that peers which go away are
// noticed and what comes outside of calls is read; of transports that connect in the background.
//
// A visit runs on the watch's thread, is short and never waits. A link's liveness_fd() that hangs
// up is visited within milliseconds; the visit asks the link's status() what happened, since a peer
// that left in good order is no failure. A socket carries data, so only its hang-up counts; any
// other descriptor was made for this purpose and has news when it is readable. A visit says for how
// long its descriptor shall rest: it has to be looked at again, or its input is what another thread
// is about to take and should not keep this one awake.
//
// Owns: one thread, an epoll set; no descriptor that is watched. Threads: all calls from any;
// remove() returns when the visit is not running and never will, so that what it uses may go. From
// within a visit, remove() of its own descriptor returns at once. Errors: kSystemError. Lifetime:
// descriptors are removed before they are closed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "src/base/io.h"
#include "src/base/mutex.h"
#include "src/base/status.h"

namespace tutti::bootstrap {

class Watch {
 public:
  /// Returns for how many nanoseconds nothing shall be heard of the descriptor. 0: of a hang-up,
  /// never again; of input, as soon as there is some.
  using Visit = std::function<uint64_t()>;
  static constexpr uint64_t kForEver = ~uint64_t{0};

  /// `thread_name` has at most 15 characters.
  static Result<std::unique_ptr<Watch>> create(const char* thread_name = "tutti-watch");
  /// Ends the thread; nothing is visited afterwards.
  ~Watch();

  enum class News { kHangUp, kInput };
  /// Visits once the descriptor has hung up, or whenever it is readable until it has been read.
  Status attend(int fd, News news, Visit visit);
  /// The next visit comes when the descriptor is writable, too; a rest ends now. From any place,
  /// the visit included; nothing happens to a descriptor that is not attended.
  void hear_output(int fd);
  void remove(int fd);

 private:
  struct Attended {
    int fd = -1;
    News news = News::kHangUp;
    uint32_t events = 0;
    bool output = false;  // the next visit comes for it, too
    std::shared_ptr<const Visit> visit;
  };
  using Entries = std::map<uint64_t, Attended>;  // by ticket: a descriptor number may come again

  Watch(Fd epoll, Fd bell) : epoll_(std::move(epoll)), bell_(std::move(bell)) {}

  void run();
  void announce(uint64_t ticket);
  void after_visit(uint64_t ticket, uint64_t rest_ns) TUTTI_REQUIRES(mutex_);
  Entries::iterator find(int fd) TUTTI_REQUIRES(mutex_);
  void arm(const Entries::value_type& entry) TUTTI_REQUIRES(mutex_);
  int wake_rested();

  const Fd epoll_;
  const Fd bell_;
  Mutex mutex_;
  std::condition_variable idle_;
  Entries entries_ TUTTI_GUARDED_BY(mutex_);
  uint64_t next_ticket_ TUTTI_GUARDED_BY(mutex_) = 1;  // 0 is the bell
  uint64_t running_ TUTTI_GUARDED_BY(mutex_) = 0;      // ticket of the visit that runs
  std::multimap<uint64_t, uint64_t> resting_
      TUTTI_GUARDED_BY(mutex_);  // tickets by the time at which they have rested
  std::thread thread_;
};

}  // namespace tutti::bootstrap
