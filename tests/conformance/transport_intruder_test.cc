// Strangers at the door while ranks connect and talk: random bytes, the right first words with the
// wrong key, connections that never say anything. They find every listener of this process by
// themselves.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "src/base/io.h"
#include "src/transport/door/handshake.h"
#include "tests/conformance/transport_crew.h"

namespace tutti::conformance {
namespace {

using transport::Buffer;
using transport::ChannelId;
using transport::ConstBuffer;
using transport::Link;
using transport::door::purpose_of;

struct Door {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(sockaddr_storage);
};

std::vector<Door> doors_of_this_process() {
  constexpr int kHighestFd = 1024;
  std::vector<Door> doors;
  for (int fd = 0; fd < kHighestFd; ++fd) {
    int listening = 0;
    socklen_t bytes = sizeof listening;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes) < 0) continue;
    Door door;
    auto* address = reinterpret_cast<sockaddr*>(&door.address);
    if (listening && getsockname(fd, address, &door.bytes) == 0) doors.push_back(door);
  }
  return doors;
}

Fd knock(const Door& door) {
  Fd fd(socket(door.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto* address = reinterpret_cast<const sockaddr*>(&door.address);
  if (connect(fd.get(), address, door.bytes) == 0) return fd;
  if (errno == EINPROGRESS && wait_ready(fd.get(), POLLOUT, monotonic_ns() + 1'000'000'000)) {
    return fd;
  }
  return {};
}

/// Keeps bothering every door until told to stop.
class Intruders {
 public:
  explicit Intruders(std::vector<Door> doors) : doors_(std::move(doors)) {
    hold_silent_connections();
    threads_.emplace_back([this] { throw_bytes(); });
    threads_.emplace_back([this] { try_wrong_keys(); });
  }
  ~Intruders() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void hold_silent_connections() {
    constexpr int kPerDoor = 80;  // more than may be half-open at once
    for (const Door& door : doors_) {
      for (int i = 0; i < kPerDoor; ++i) silent_.push_back(knock(door));
    }
  }

  void throw_bytes() {
    std::mt19937 random(7);
    while (!stop_.load()) {
      const Fd fd = knock(doors_[random() % doors_.size()]);
      std::vector<char> bytes(random() % 300);
      for (char& byte : bytes) byte = static_cast<char>(random());
      constexpr std::string_view kFirstWords = "TUTTIHI\n\1\0\0\0\3\0\0\0\1\0\0\0";
      if (random() % 2 == 0) bytes.insert(bytes.begin(), kFirstWords.begin(), kFirstWords.end());
      if (fd.valid()) send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  void try_wrong_keys() {
    std::mt19937 random(8);
    transport::JobKey key{};
    while (!stop_.load()) {
      const Fd fd = knock(doors_[random() % doors_.size()]);
      transport::door::Identity self;
      self.rank = 0;
      self.peer = static_cast<int32_t>(random() % 4);
      self.communicator = kCommunicator;
      self.epoch = 1;
      self.purpose = random() % 2 == 0 ? purpose_of("tcp") : purpose_of("shm");
      if (!fd.valid()) continue;
      const Status status =
          transport::door::handshake_connect(fd.get(), key, self, monotonic_ns() + 50'000'000);
      EXPECT_FALSE(status.ok());
    }
  }

  std::vector<Door> doors_;
  std::vector<Fd> silent_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

class TransportIntruder : public TransportTest {};

TEST_P(TransportIntruder, StrangersDisturbNobody) {
  constexpr int kRanks = 4;
  auto crew = Crew::create(GetParam(), kRanks);
  ASSERT_NE(crew, nullptr);
  const std::vector<Door> doors = doors_of_this_process();
  if (doors.empty()) GTEST_SKIP() << GetParam().name << " has no door";
  const Intruders intruders(doors);
  const Status status = crew->connect_all();
  ASSERT_TRUE(status.ok()) << status.message();
  if (crew->link(0, 1).stream() == nullptr) return;
  const ChannelId channel{kCommunicator, 1, 0};
  in_parallel(kRanks, [&](int r) {
    Link& link = crew->link(r, r ^ 1);
    const auto source = pattern(300'000, 1);
    std::vector<std::byte> target(source.size());
    const ConstBuffer source_piece{source.data(), source.size()};
    const Buffer target_piece{target.data(), target.size()};
    for (int i = 0; i < 50; ++i) {
      const auto sent = link.stream()->send(channel, 1, {&source_piece, 1});
      const auto received = link.stream()->receive(channel, 1, {&target_piece, 1});
      ASSERT_TRUE(drive(link, [&] {
        return link.stream()->sent(sent) && link.stream()->received(received);
      })) << link.status().message();
    }
    ASSERT_EQ(source, target);
  });
}

TUTTI_FOR_EVERY_TRANSPORT(TransportIntruder);

}  // namespace
}  // namespace tutti::conformance
