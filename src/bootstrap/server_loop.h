// The thread of the rendezvous server.
//
// Owns: listeners (in gates), connections, the bell. Threads: run() on one; stop(), fail(),
// finished() and failed() from any. Errors: none leave it: a rank gets its error as an answer, and
// a connection that cannot take one is dropped.
#pragma once

#include <poll.h>

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "src/base/io.h"
#include "src/base/mutex.h"
#include "src/bootstrap/group.h"
#include "src/bootstrap/server.h"
#include "src/bootstrap/session.h"
#include "src/transport/door/gate.h"

namespace tutti::bootstrap {

class ServerLoop {
 public:
  using Gates = std::vector<std::unique_ptr<transport::door::Gate>>;

  ServerLoop(Gates gates, Fd bell, const ServerOptions& options);

  void run();
  void stop();
  void fail(const Status& reason);
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  /// The group has failed, and all that is left to do is to tell its ranks why.
  bool failed() const { return failed_.load(std::memory_order_acquire); }

 private:
  /// Returns false when the loop is to end.
  bool turn();
  bool turn_or_fail();
  void end_groups();
  /// Whether no rank that comes from now on can be served.
  bool is_over() const;
  bool is_open() const { return !(options_.one_of_many && is_complete()); }
  bool is_complete() const { return served_ >= options_.groups * stages_; }
  void sleep();
  uint64_t watch_sessions(std::vector<pollfd>& polls) const;
  /// A rank has come: the time in which the next one has to come begins anew.
  void put_off_end();
  void admit();
  void hear_sessions();
  Group& group(int stage) { return groups_.try_emplace(stage, options_.left_out).first->second; }
  bool is_left_out(int rank) const;
  void hear_strangers();
  void join(Session& session);
  void hear_abort(const Session& session);
  void tell_missing();
  void serve_group(int stage);
  std::string missing() const;
  uint64_t return_deadline_ns() const;
  void fail_group(const Status& reason);
  void expire();
  void take_failure();
  void flush(Session& session);
  bool is_held(const Session& session) const;
  void flush_sessions();
  void drop_finished();

  Gates gates_;
  const Fd bell_;
  const ServerOptions options_;
  std::vector<std::unique_ptr<Session>> sessions_;
  struct Stranger {
    std::unique_ptr<Session> session;
    uint64_t until_ns = 0;
  };
  std::vector<Stranger> strangers_;          // have come to another meeting
  std::map<int, Group> groups_;              // by stage: those that a rank has come to
  int stages_ = 1;                           // of every group, as its ranks say
  Status failure_;                           // sticky: what latecomers are told
  int served_ = 0;                           // stages
  uint64_t idle_deadline_ns_ = kNoDeadline;  // nobody has come
  uint64_t held_until_ns_ = 0;               // answers of first ranks
  bool raised_limit_ = false;
  Status closed_;  // why no rank could be let in; OK: one was since
  uint64_t closed_since_ns_ = 0;
  Mutex mutex_;
  Status given_up_ TUTTI_GUARDED_BY(mutex_);  // by fail()
  std::atomic<bool> stopping_{false};
  std::atomic<bool> finished_{false};
  std::atomic<bool> failed_{false};
};

}  // namespace tutti::bootstrap
