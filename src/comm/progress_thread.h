// The thread that moves links while no call does, so that peers of other hosts put to and get from
// the windows of a rank that computes.
//
// It is a watch (bootstrap/watch.h) of the links' descriptors. A link that others have moved since
// the last visit is left to them for a while: then a collective whose bytes come by the same socket
// does not pay for a second poller. Input that they leave behind is found at the end of the rest.
// Of links that share a connection one is moved, which moves the others, too.
//
// Owns: the thread, from the first attend() on. Threads: attend() and leave() from any; leave()
// returns when the thread is not in the link and will not be. Errors: kSystemError; a link that is
// broken is not moved any more. Lifetime: leave() before a link ends.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "src/base/mutex.h"
#include "src/base/status.h"
#include "src/bootstrap/watch.h"
#include "src/transport/transport.h"

namespace tutti::comm {

class ProgressThread {
 public:
  /// Says that a link which connected late cannot be attended, and why.
  using Report = std::function<void(const Status&)>;

  /// `link` has one-sided access. Where it connects later it is moved from then on; `report` may
  /// then be called, by the thread that connects, until leave().
  Status attend(transport::Link& link, Report report);
  void leave(transport::Link& link);

 private:
  struct Charge {
    transport::Link* link = nullptr;
    Report report;
    int fd = -1;                    // -1: not connected yet
    bool moves_connection = false;  // in the watch; of links that share a connection one is
    uint64_t moves = 0;             // at the last visit
    uint64_t rest_ns = 0;
  };

  Status join(uint64_t ticket);
  void settled(uint64_t ticket);
  uint64_t visit(Charge& charge);
  Status watch(Charge& charge);
  void hand_over(int fd);

  Mutex mutex_;
  std::unique_ptr<bootstrap::Watch> watch_;
  std::map<uint64_t, Charge> charges_ TUTTI_GUARDED_BY(mutex_);  // by ticket: a link may come again
  uint64_t next_ticket_ TUTTI_GUARDED_BY(mutex_) = 0;
};

}  // namespace tutti::comm
