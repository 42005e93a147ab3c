#include "tests/security/siege.h"

#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/support/team.h"

namespace tutti::siege {
namespace {

class Locked {
 public:
  explicit Locked(std::atomic<uint32_t>& lock) : lock_(lock) {
    uint32_t open = 0;
    while (!lock_.compare_exchange_weak(open, 1, std::memory_order_acquire)) {
      open = 0;
      testing_support::sleep_ns(10'000);
    }
  }
  ~Locked() { lock_.store(0, std::memory_order_release); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  std::atomic<uint32_t>& lock_;
};

/// Accepted connections (those that have an inode) in one of the kernel's tables, by local port.
std::map<uint16_t, uint64_t> count_accepted(const char* path) {
  std::map<uint16_t, uint64_t> accepted;
  std::ifstream table(path);
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::vector<std::string> fields;
    for (std::string word; words >> word;) fields.push_back(word);
    constexpr size_t kLocal = 1, kState = 3, kInode = 9;
    if (fields.size() <= kInode || fields[kInode] == "0" || fields[kState] == "0A") continue;
    const size_t colon = fields[kLocal].rfind(':');
    ++accepted[static_cast<uint16_t>(std::stoul(fields[kLocal].substr(colon + 1), nullptr, 16))];
  }
  return accepted;
}

}  // namespace

uint16_t Door::port() const {
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  }
  return 0;
}

void Field::publish(int rank, const std::vector<Door>& found) {
  Gatehouse& house = gatehouses[rank];
  const Locked locked(house.lock);
  house.count = static_cast<uint32_t>(std::min(found.size(), kMostDoors));
  std::copy_n(found.begin(), house.count, house.doors);
}

std::vector<Door> Field::doors() {
  std::vector<Door> all;
  for (Gatehouse& house : gatehouses) {
    const Locked locked(house.lock);
    all.insert(all.end(), house.doors, house.doors + house.count);
  }
  return all;
}

std::vector<Door> find_doors() {
  constexpr int kHighestFd = 512;
  std::vector<Door> doors;
  for (int fd = 0; fd < kHighestFd; ++fd) {
    int listening = 0;
    socklen_t bytes = sizeof listening;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes) < 0 || !listening) continue;
    Door door;
    door.bytes = sizeof door.address;
    auto* address = reinterpret_cast<sockaddr*>(&door.address);
    if (getsockname(fd, address, &door.bytes) == 0) doors.push_back(door);
  }
  return doors;
}

void watch_doors(Field& field) {
  constexpr uint64_t kPauseNs = 20'000'000;
  while (field.ended.load() == 0) {
    // A server may listen at one port of two addresses: each is a door.
    std::map<sa_family_t, std::map<uint16_t, uint64_t>> accepted;
    accepted[AF_INET] = count_accepted("/proc/net/tcp");
    accepted[AF_INET6] = count_accepted("/proc/net/tcp6");
    for (const Door& door : field.doors()) {
      const uint64_t here = accepted[door.address.ss_family][door.port()];
      if (here > field.most_half_open.load()) field.most_half_open.store(here);
    }
    testing_support::sleep_ns(kPauseNs);
  }
}

}  // namespace tutti::siege
