#include "tests/security/siege.h"

#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

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

/// A door as the kernel's tables name it: family and port.
using DoorName = std::pair<sa_family_t, uint16_t>;
using Inodes = std::set<uint64_t>;
using Accepted = std::map<DoorName, Inodes>;

/// Adds the accepted connections (those that have an inode) of one of the kernel's tables.
void read_accepted(const char* path, sa_family_t family, Accepted& accepted) {
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
    const auto port =
        static_cast<uint16_t>(std::stoul(fields[kLocal].substr(colon + 1), nullptr, 16));
    accepted[{family, port}].insert(std::stoull(fields[kInode]));
  }
}

Accepted read_accepted() {
  Accepted accepted;
  read_accepted("/proc/net/tcp", AF_INET, accepted);
  read_accepted("/proc/net/tcp6", AF_INET6, accepted);
  return accepted;
}

size_t count_common(const Inodes& one, const Inodes& other) {
  return static_cast<size_t>(
      std::count_if(one.begin(), one.end(), [&](uint64_t inode) { return other.contains(inode); }));
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

// The kernel's tables are no snapshots: who was hung up on and who was let in while one is read may
// both be in it, by the dozen. But who is in two readings was there all the time between them.
void watch_doors(Field& field) {
  constexpr uint64_t kPauseNs = 20'000'000;
  Accepted before = read_accepted();
  while (field.ended.load() == 0) {
    const std::vector<Door> doors = field.doors();
    Accepted now = read_accepted();
    for (const Door& door : doors) {
      const DoorName name{door.address.ss_family, door.port()};
      const uint64_t at_once = count_common(before[name], now[name]);
      if (at_once > field.most_accepted.load()) field.most_accepted.store(at_once);
    }
    testing_support::sleep_ns(kPauseNs);
    before = read_accepted();
  }
}

}  // namespace tutti::siege
