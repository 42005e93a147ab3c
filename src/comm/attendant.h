// The thread that moves links while no call does, so that peers of other hosts put to and get from
// the windows of a rank that computes.
//
// It sleeps on the links' descriptors. Where it finds nothing to move though there was something, a
// call is at it: then the link is left alone for a millisecond. Owns: the thread, from the first
// attend() on. Threads: attend() and leave() from any; leave() returns when the thread is not in
// the link and will not be. Errors: kSystemError; a link that is broken is not moved any more.
// Lifetime: leave() before a link ends.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

#include "src/base/io.h"
#include "src/base/status.h"
#include "src/transport/transport.h"

namespace tutti::comm {

class Attendant {
 public:
  Attendant() = default;
  ~Attendant();
  Attendant(const Attendant&) = delete;
  Attendant& operator=(const Attendant&) = delete;

  /// `link` has one-sided access. Where it connects later it is moved from then on.
  Status attend(transport::Link& link);
  void leave(transport::Link& link);

 private:
  struct Entry {
    transport::Link* link = nullptr;
    uint64_t rests_until_ns = 0;  // 0: armed, or being moved
  };

  Status start();
  void run();
  Status join(uint64_t ticket);
  void visit(uint64_t ticket);
  bool arm(uint64_t ticket, Entry& entry);
  void wake(uint64_t ticket);
  int64_t rearm_rested();

  std::mutex mutex_;
  std::condition_variable idle_;
  Fd epoll_, bell_;
  std::map<uint64_t, Entry> entries_;  // under mutex_; by ticket
  uint64_t next_ticket_ = 1;           // under mutex_; 0 is the bell
  uint64_t running_ = 0;               // under mutex_; the ticket whose link is being moved
  std::thread thread_;
};

}  // namespace tutti::comm
