// Finds, among all ranks that call, the one that is waited for: an accept may bring another peer's
// connection, which is kept until it is asked for.
//
// Owns: the listener and connections of ranks nobody has asked for yet. Threads: admit() from one
// thread. Errors: kTimeout tells what was refused meanwhile.
#pragma once

#include <cstdint>
#include <map>

#include "src/base/io.h"
#include "src/base/status.h"
#include "src/transport/gate.h"
#include "src/transport/member.h"

namespace tutti::transports::tcp {

class Doorman {
 public:
  Doorman(Fd listener, const transport::Member& member);

  /// The authenticated connection of `peer`, which is a lower rank.
  Result<Fd> admit(int peer, uint64_t deadline_ns);

 private:
  const int rank_;
  transport::Gate gate_;
  std::map<int, Fd> admitted_;
};

}  // namespace tutti::transports::tcp
