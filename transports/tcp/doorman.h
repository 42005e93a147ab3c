// Accepts connections and lets in those that prove to be ranks of this job.
//
// Whoever connects has kHandshakeNs to prove it, beside others who try at the same time: a
// connection that says nothing delays nobody. At most kMaxHalfOpen try at once; more callers wait
// in the kernel's queue.
//
// Owns: the listener, half-open connections, connections of ranks nobody has asked for yet.
// Threads: admit() from one thread. Errors: kTimeout tells what was refused meanwhile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/base/io.h"
#include "src/base/status.h"
#include "src/transport/handshake.h"
#include "src/transport/member.h"

namespace tutti::transports::tcp {

class Doorman {
 public:
  static constexpr size_t kMaxHalfOpen = 64;
  static constexpr uint64_t kHandshakeNs = 2'000'000'000;

  /// `member` outlives the doorman; the listener is non-blocking.
  Doorman(Fd listener, const transport::Member& member);

  /// The authenticated connection of `peer`, which is a lower rank.
  Result<Fd> admit(int peer, uint64_t deadline_ns);

 private:
  struct Guest {
    Fd fd;
    transport::Greeting greeting;
    uint64_t deadline_ns;
  };

  Status accept_guests();
  void advance_guests();
  /// True: it is decided, and the guest is gone.
  bool advance(Guest& guest);
  void refuse(const std::string& why);
  void wait_for_news(uint64_t deadline_ns) const;

  const Fd listener_;
  const transport::Member& member_;
  std::vector<Guest> guests_;
  std::map<int, Fd> admitted_;
  size_t refused_ = 0;
  std::string last_refusal_;
};

}  // namespace tutti::transports::tcp
