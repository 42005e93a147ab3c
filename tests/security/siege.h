// The memory that the besieged ranks and the besiegers share: doors, the id that is waited for,
// counts.
//
// Lies in memory that all processes map.
// Threads: atomics; doors of a rank under their lock.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "include/tutti/tutti.h"

namespace tutti::siege {

inline constexpr int kRanks = 4;

struct Door {
  sockaddr_storage address{};
  socklen_t bytes = 0;

  bool local() const { return address.ss_family == AF_UNIX; }
  uint16_t port() const;
};

struct Field {
  static constexpr size_t kMostDoors = 16;  // of one process

  struct Gatehouse {
    std::atomic<uint32_t> lock;
    uint32_t count;
    Door doors[kMostDoors];
  };

  tuttiUniqueId bait;  // waits for its group during the whole siege
  std::atomic<uint32_t> begun;
  std::atomic<uint32_t> ended;
  std::atomic<uint32_t> given_up;        // a besieger has: the siege is over
  std::atomic<uint64_t> attempts;        // connections that were opened
  std::atomic<uint64_t> let_in;          // intruders: must stay 0
  std::atomic<uint64_t> most_accepted;   // at one door at one time
  std::atomic<uint64_t> most_grown_kib;  // of a rank
  std::atomic<uint32_t> foreign;         // the other user's process attacks too
  Gatehouse gatehouses[kRanks];

  void publish(int rank, const std::vector<Door>& doors);
  std::vector<Door> doors();
};

/// All listeners of this process.
std::vector<Door> find_doors();

/// Attacks every door until the field says it is over. `user`: as this user, from now on.
void besiege(Field& field, uint64_t seed, int user);

/// Accepted connections at TCP doors, as the kernel counts them; until it is over.
void watch_doors(Field& field);

}  // namespace tutti::siege
