// What a server does that no rank of rendezvous.h shows.
#include "src/bootstrap/server.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/bootstrap/session.h"
#include "src/transport/handshake.h"

namespace tutti::bootstrap {
namespace {

uint64_t in_a_minute() { return monotonic_ns() + 60 * kNanosecondsPerSecond; }

/// A rank that has brought `blob` to the second stage of two, of a group of two.
KeptFd bring(const UniqueId& id, int rank, const std::string& blob) {
  KeptFd fd = dial(id.addresses.front(), id.port, in_a_minute()).value();
  transport::Identity self;
  self.rank = rank;
  self.communicator = id.communicator();
  self.purpose = transport::Purpose::kRendezvous;
  EXPECT_TRUE(transport::handshake_connect(fd.get(), id.key, self, in_a_minute()).ok());
  const auto header = encode_request({{2, 0, 1, 2}, blob.size(), 60'000});
  EXPECT_TRUE(send_all(fd.get(), header.data(), header.size(), in_a_minute()).ok());
  EXPECT_TRUE(send_all(fd.get(), blob.data(), blob.size(), in_a_minute()).ok());
  return fd;
}

// Its process may end with it, and the server too. But who takes nothing does not delay it for
// ever.
TEST(Server, AnswersTheFirstRankLast) {
  UniqueId id;
  id.addresses = {Address::parse("127.0.0.1").value()};
  ASSERT_TRUE(make_secrets(id).ok());
  const auto server = Server::start(id, {}).value();
  constexpr size_t kMoreThanSocketsHold = 48 << 20;
  const KeptFd first = bring(server->id(), 0, "");
  const uint64_t begun_ns = monotonic_ns();
  const KeptFd slow = bring(server->id(), 1, std::string(kMoreThanSocketsHold, 'x'));
  ASSERT_TRUE(wait_ready(first.get(), POLLIN, in_a_minute()));
  EXPECT_GE(monotonic_ns() - begun_ns, kNanosecondsPerSecond * 9 / 10);
}

}  // namespace
}  // namespace tutti::bootstrap
