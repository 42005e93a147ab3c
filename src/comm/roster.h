// A rank keeps this of its group so that ranks of it can meet again, whatever became of their
// connections: where each of them listens, and the group's key.
//
// Owns: this rank's listener. Nobody is served there until a meeting begins; who calls before waits
// in the kernel's queue. Threads: read-only once made; shared by the communicator and what is made
// from it, so that either may end first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/fork.h"
#include "src/bootstrap/address.h"
#include "src/transport/member.h"

namespace tutti::comm {

struct RankAddress {
  std::string host;  // its name, for messages
  int64_t process = 0;
  bootstrap::Address address;
  uint16_t port = 0;
  std::string host_id{};  // equal where one kernel knows both
};

struct Roster {
  int rank = 0;
  transport::JobKey key{};
  std::vector<RankAddress> places;  // by rank
  KeptFd listener;                  // none in a group of one

  /// "rank 3 (process 4711 on node7)".
  std::string describe(int of) const {
    const RankAddress& place = places[static_cast<size_t>(of)];
    return "rank " + std::to_string(of) + " (process " + std::to_string(place.process) + " on " +
           place.host + ")";
  }
};

}  // namespace tutti::comm
