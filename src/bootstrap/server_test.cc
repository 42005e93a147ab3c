// Behaviour of a server that no rank of rendezvous.h shows.
#include "src/bootstrap/server.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/bootstrap/rendezvous.h"
#include "tests/support/raw_rank.h"

namespace tutti::bootstrap {
namespace {

uint64_t in_a_minute() { return monotonic_ns() + 60 * kNanosecondsPerSecond; }

// Its process may end with it, and the server too. But who takes nothing does not delay it for
// ever.
TEST(Server, AnswersTheFirstRankLast) {
  UniqueId id;
  id.addresses = {Address::parse("127.0.0.1").value()};
  ASSERT_TRUE(make_secrets(id).ok());
  const auto server = Server::start(id, {}).value();
  constexpr size_t kMoreThanSocketsHold = 48 << 20;
  const ExchangeKey second_stage{2, 0, 1, 2};
  const KeptFd first = testing_support::bring(server->id(), 0, second_stage, "");
  const uint64_t begun_ns = monotonic_ns();
  const KeptFd slow =
      testing_support::bring(server->id(), 1, second_stage, std::string(kMoreThanSocketsHold, 'x'));
  if (monotonic_ns() - begun_ns > kNanosecondsPerSecond / 2) {
    GTEST_SKIP() << "the machine is too slow to tell who waits";
  }
  ASSERT_TRUE(wait_ready(first.get(), POLLIN, in_a_minute()));
  EXPECT_GE(monotonic_ns() - begun_ns, kNanosecondsPerSecond * 9 / 10);
}

// Else the process that failed could not try again at the place that all ranks were told.
TEST(Server, WhoseGroupHasFailedLeavesItsPortToTheNextOfItsProcess) {
  UniqueId id;
  id.addresses = {Address::parse("127.0.0.1").value()};
  ASSERT_TRUE(make_secrets(id).ok());
  auto failing = Server::start(id, {}).value();
  id = failing->id();
  EXPECT_FALSE(Server::start(id, {}).ok()) << "somebody has the port";
  failing->fail(Status::timeout("nobody came"));
  Server::release(std::move(failing));
  auto next = Server::start(id, {});
  ASSERT_TRUE(next.ok()) << next.status().message();
  Server::release(std::move(next).value());
  EXPECT_FALSE(Server::start(id, {}).ok()) << "this one waits for its group";
  EXPECT_TRUE(exchange(id, 0, 1, "", in_a_minute()).ok());
}

}  // namespace
}  // namespace tutti::bootstrap
