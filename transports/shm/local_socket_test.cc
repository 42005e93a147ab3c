#include "transports/shm/local_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>

#include "src/base/clock.h"

namespace tutti::transports::shm {
namespace {

constexpr uint64_t kPatienceNs = 10'000'000'000;

/// Two ends of a connection, of which the other one is closed.
Fd closed_at_the_other_end() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Fd mine(ends[0]);
  const Fd theirs(ends[1]);
  return mine;
}

TEST(LocalSocket, APeerThatHasEndedIsNoErrorOfThisSystem) {
  const Fd mine = closed_at_the_other_end();
  std::array<uint8_t, 8> bytes{};
  const Status sent = send_attached(mine.get(), bytes, mine.get());
  EXPECT_EQ(sent.code(), Code::kRemoteError) << sent.message();
  const auto got = receive_attached(mine.get(), bytes, deadline_after(kPatienceNs));
  EXPECT_EQ(got.status().code(), Code::kRemoteError) << got.status().message();
}

TEST(LocalSocket, ListenersThatAreGoneRefuse) {
  std::string name;
  {
    const Result<LocalListener> listener = listen_locally();
    ASSERT_TRUE(listener.ok());
    name = listener.value().name;
    EXPECT_TRUE(dial_locally(name, deadline_after(kPatienceNs)).ok());
  }
  const Status refused = dial_locally(name, deadline_after(kPatienceNs)).status();
  EXPECT_EQ(refused.code(), Code::kRemoteError) << refused.message();
}

}  // namespace
}  // namespace tutti::transports::shm
