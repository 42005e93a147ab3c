// Accepts connections and lets in those that prove to be ranks of this job.
//
// Whoever connects has kHandshakeNs to prove it, beside others who try at the same time: a connection
// that says nothing delays nobody. Every proof runs on a thread of its own, at most kMaxHalfOpen; more
// callers wait in the kernel's queue.
//
// Owns: the listener, half-open connections, connections of ranks nobody has asked for yet.
// Threads: admit() from one thread. Errors: kTimeout tells what was refused meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/status.h"
#include "src/transport/member.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {

class Doorman {
 public:
  static constexpr size_t kMaxHalfOpen = 64;
  static constexpr uint64_t kHandshakeNs = 2'000'000'000;

  Doorman(Fd listener, Fd bell, const transport::Member& member);
  ~Doorman();

  /// The authenticated connection of `peer`.
  Result<Fd> admit(int peer, uint64_t deadline_ns);

 private:
  struct Guest {
    Fd fd;
    Status refusal;
    int rank = -1;
    std::atomic<bool> decided{false};
    std::thread thread;
  };

  void greet(Guest& guest);
  void settle_guests();
  Status accept_guests();
  void wait_for_news(uint64_t deadline_ns);

  const Fd listener_;
  const Fd bell_;  // rung by the guests' threads
  const transport::Member& member_;
  std::vector<std::unique_ptr<Guest>> guests_;
  std::map<int, Fd> admitted_;
  size_t refused_ = 0;
  std::string last_refusal_;
};

}  // namespace tutti::transports::tcp
