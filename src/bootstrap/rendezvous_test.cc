#include "src/bootstrap/rendezvous.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/base/prng.h"
#include "src/bootstrap/group.h"
#include "src/bootstrap/server.h"
#include "src/bootstrap/session.h"
#include "src/transport/door/handshake.h"
#include "tests/support/raw_rank.h"
#include "tests/support/reserved_port.h"

namespace tutti::bootstrap {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;

constexpr uint64_t kPatienceMs = 60'000;  // for what is on its way

uint64_t in(uint64_t milliseconds) { return monotonic_ns() + milliseconds * kMillisecond; }
uint64_t in_time() { return in(kPatienceMs); }

std::unique_ptr<Server> start(const ServerOptions& options = {}) {
  UniqueId id;
  id.addresses = {Address::parse("127.0.0.1").value()};
  EXPECT_TRUE(make_secrets(id).ok());
  Result<std::unique_ptr<Server>> server = Server::start(id, options);
  EXPECT_TRUE(server.ok()) << server.status().message();
  return std::move(server).value();
}

using Blobs = Result<std::vector<std::string>>;

/// One thread per entry: {rank, ranks}.
std::vector<Blobs> run(const UniqueId& id, const std::vector<std::pair<int, int>>& who,
                       uint64_t deadline_ns, const std::string& more = {}) {
  std::vector<Blobs> results(who.size(), Status::internal_error("did not run"));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < who.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto [rank, ranks] = who[i];
      results[i] = exchange(id, rank, ranks, "card of " + std::to_string(rank) + more, deadline_ns);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<std::pair<int, int>> everybody(int ranks) {
  std::vector<std::pair<int, int>> who;
  for (int rank = 0; rank < ranks; ++rank) who.emplace_back(rank, ranks);
  return who;
}

bool ends(const Server& server, uint64_t milliseconds = kPatienceMs) {
  const uint64_t deadline_ns = in(milliseconds);
  while (!server.finished() && monotonic_ns() < deadline_ns) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return server.finished();
}

TEST(Rendezvous, EverybodyGetsEverything) {
  for (const int ranks : {1, 2, 3, 7, 16}) {
    const auto server = start();
    for (const Blobs& blobs : run(server->id(), everybody(ranks), in_time())) {
      ASSERT_TRUE(blobs.ok()) << blobs.status().message();
      ASSERT_EQ(blobs.value().size(), static_cast<size_t>(ranks));
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(blobs.value()[rank], "card of " + std::to_string(rank));
      }
    }
    EXPECT_TRUE(ends(*server)) << "the server outlives its group";
  }
}

// The process of rank 0 made the unique id, and takes the server with it when it ends: at once,
// with its answer; which is small, or more than a socket takes at once.
TEST(Rendezvous, AServerThatEndsWithRank0HasAnsweredTheOthers) {
  constexpr int kRanks = 12, kTimes = 30;
  for (int time = 0; time < kTimes; ++time) {
    const std::string more(time % 2 == 0 ? 0 : kMaxBlobBytes - 100, 'x');
    int ends_of_pipe[2];
    ASSERT_EQ(pipe2(ends_of_pipe, O_CLOEXEC), 0);
    const Fd told(ends_of_pipe[0]);
    Fd tells(ends_of_pipe[1]);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto server = start();
      const UniqueId id = server->id();
      Server::release(std::move(server));
      const UniqueIdBytes bytes = id.encode();
      if (write(tells.get(), bytes.data(), bytes.size()) < 0) _exit(1);
      _exit(exchange(id, 0, kRanks, more, in_time()).ok() ? 0 : 1);
    }
    tells.reset();
    UniqueIdBytes bytes{};
    ASSERT_EQ(read(told.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    std::vector<std::pair<int, int>> others = everybody(kRanks);
    others.erase(others.begin());
    for (const Blobs& blobs : run(UniqueId::decode(bytes).value(), others, in_time(), more)) {
      EXPECT_TRUE(blobs.ok()) << blobs.status().message();
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(Rendezvous, SeveralGroupsAndLargeBlobs) {
  ServerOptions options;
  options.groups = 3;
  const auto server = start(options);
  for (int round = 0; round < options.groups; ++round) {
    const std::string large(kMaxBlobBytes, static_cast<char>('a' + round));
    Blobs first = Status::internal_error("did not run");
    std::thread other([&] { first = exchange(server->id(), 0, 2, large, in_time()); });
    const Blobs second = exchange(server->id(), 1, 2, "", in_time());
    other.join();
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(first.value(), (std::vector<std::string>{large, ""}));
    EXPECT_EQ(second.value(), first.value());
  }
  EXPECT_TRUE(ends(*server));
}

TEST(Rendezvous, DuplicateRankFailsForAll) {
  const auto server = start();
  for (const Blobs& blobs : run(server->id(), {{0, 3}, {1, 3}, {1, 3}}, in_time())) {
    ASSERT_FALSE(blobs.ok());
    EXPECT_EQ(blobs.status().code(), Code::kInvalidUsage);
    EXPECT_NE(blobs.status().message().find("say that they are rank 1 of 3"),
              std::string_view::npos)
        << blobs.status().message();
  }
  const Blobs late = exchange(server->id(), 2, 3, "", in_time());
  EXPECT_NE(late.status().message().find("say that they are rank 1 of 3"), std::string_view::npos);
}

TEST(Rendezvous, DifferentGroupSizesFailForAll) {
  const auto server = start();
  for (const Blobs& blobs : run(server->id(), {{0, 3}, {1, 4}}, in_time())) {
    ASSERT_FALSE(blobs.ok());
    EXPECT_EQ(blobs.status().code(), Code::kInvalidUsage);
    EXPECT_NE(blobs.status().message().find("was told that the group has"), std::string_view::npos);
  }
}

TEST(Rendezvous, TimeoutNamesTheMissing) {
  const auto server = start();
  for (const Blobs& blobs : run(server->id(), {{0, 6}, {2, 6}}, in(3000))) {
    EXPECT_EQ(blobs.status().code(), Code::kTimeout);
    EXPECT_NE(blobs.status().message().find("ranks 1, 3-5 of 6 did not come"),
              std::string_view::npos)
        << blobs.status().message();
  }
}

TEST(Rendezvous, ServerGivesUpWhenNothingHappensAnyMore) {
  ServerOptions options;
  options.idle_ns = 100 * kMillisecond;
  options.linger_ns = 1;
  const auto server = start(options);
  const Blobs blobs = exchange(server->id(), 0, 2, "", kNoDeadline);
  EXPECT_EQ(blobs.status().code(), Code::kTimeout);
  EXPECT_NE(blobs.status().message().find("rank 1 of 2 did not come"), std::string_view::npos);
  EXPECT_TRUE(ends(*server));
}

// An id may be made long before its first use.
TEST(Rendezvous, AnIdDoesNotExpire) {
  ServerOptions options;
  options.idle_ns = kMillisecond;
  const auto server = start(options);
  EXPECT_FALSE(ends(*server, 200));
  EXPECT_TRUE(exchange(server->id(), 0, 1, "", in_time()).ok());
}

/// A rank that may be cancelled, and what it says while it waits.
struct Waiting {
  Waiting(const UniqueId& id, int rank, int ranks)
      : thread([this, id, rank, ranks] {
          const WaitLimit wait_limit(kNoDeadline, token, 10 * kMillisecond,
                                     [this](const std::string& what, uint64_t) {
                                       const std::lock_guard lock(mutex);
                                       said = what;
                                     });
          blobs = exchange(id, rank, ranks, "", wait_limit);
        }) {}
  void until_said(const std::string& wanted) {
    const uint64_t deadline_ns = in_time();
    std::string last;
    while (last.find(wanted) == std::string::npos && monotonic_ns() < deadline_ns) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(mutex);
      last = said;
    }
    EXPECT_NE(last.find(wanted), std::string::npos) << last;
  }

  const std::shared_ptr<Cancellation> token = Cancellation::create().value();
  std::mutex mutex;
  std::string said;
  Blobs blobs = Status::internal_error("did not run");
  std::thread thread;
};

TEST(Rendezvous, WhoWaitsSaysForWhom) {
  const auto server = start();
  Waiting first(server->id(), 1, 4);
  first.until_said("ranks 0, 2, 3 of 4 did not come");
  Waiting second(server->id(), 3, 4);
  second.until_said("ranks 0, 2 of 4 did not come");
  first.until_said("rank 1 of 4 at the rendezvous 127.0.0.1");
  for (Waiting* rank : {&first, &second}) {
    rank->token->cancel();
    rank->thread.join();
  }
}

TEST(Rendezvous, WhoFindsNoServerSaysWhere) {
  UniqueId id;
  { id = start()->id(); }
  Waiting rank(id, 1, 2);
  rank.until_said("127.0.0.1:" + std::to_string(id.port));
  rank.until_said("was the id used already?");
  rank.token->cancel();
  rank.thread.join();
  EXPECT_NE(rank.blobs.status().message().find("aborted"), std::string_view::npos);
}

// Even if its word would complete the group.
TEST(Rendezvous, TheOthersAreToldWhoDoesNotCome) {
  const auto server = start();
  Waiting rank(server->id(), 1, 2);
  rank.until_said("rank 0 of 2 did not come");
  decline(JoinOptions{server->id(), 0, 2});
  rank.thread.join();
  EXPECT_EQ(rank.blobs.status().code(), Code::kRemoteError);
  EXPECT_NE(rank.blobs.status().message().find("rank 0 aborted"), std::string_view::npos)
      << rank.blobs.status().message();
}

TEST(Rendezvous, AGroupThatARankOfAnotherJobFindsFails) {
  const auto server = start();
  Waiting rank(server->id(), 1, 2);
  rank.until_said("rank 0 of 2 did not come");
  JoinOptions join{server->id(), 0, 2};
  join.twin = true;
  decline(join);
  rank.thread.join();
  EXPECT_EQ(rank.blobs.status().code(), Code::kInvalidUsage);
  EXPECT_NE(rank.blobs.status().message().find("two jobs"), std::string_view::npos);
}

TEST(Rendezvous, TheOthersAreToldWhoAborted) {
  const auto server = start();
  Waiting aborted(server->id(), 0, 3);
  aborted.until_said("ranks 1, 2 of 3 did not come");
  Waiting other(server->id(), 1, 3);
  aborted.until_said("rank 2 of 3 did not come");
  aborted.token->cancel();
  aborted.thread.join();
  other.thread.join();
  EXPECT_EQ(aborted.blobs.status().code(), Code::kRemoteError);
  const Blobs late = exchange(server->id(), 2, 3, "", in_time());
  for (const Status& status : {other.blobs.status(), late.status()}) {
    EXPECT_EQ(status.code(), Code::kRemoteError);
    EXPECT_NE(status.message().find("rank 0 aborted"), std::string_view::npos) << status.message();
  }
}

// The others have their answers and go on to what comes next, where they will be told.
TEST(Rendezvous, AnAnswerThatCrossesAnAbortCounts) {
  const auto server = start();
  const auto cancellation = Cancellation::create().value();
  JoinOptions join{server->id(), 1, 2, WaitLimit(in_time(), cancellation, kNoDeadline, {})};
  join.look_ns = kMillisecond;
  join.look = [&] {
    EXPECT_TRUE(exchange(server->id(), 0, 2, "", in_time()).ok());
    cancellation->cancel();
  };
  const Blobs blobs = exchange(join, "");
  EXPECT_TRUE(blobs.ok()) << blobs.status().message();
}

// No deadline ends this, so the server must.
TEST(Rendezvous, WhoWentAwayAndStaysAwayIsNotWaitedFor) {
  ServerOptions options;
  options.return_ns = 10 * kMillisecond;
  const auto server = start(options);
  Waiting waiting(server->id(), 0, 3);
  waiting.until_said("ranks 1, 2 of 3 did not come");
  {
    const KeptFd fd = testing_support::bring(server->id(), 1, {3, 0, 0, 1}, "");
    waiting.until_said("rank 2 of 3 did not come");
  }
  waiting.thread.join();
  const std::string_view message = waiting.blobs.status().message();
  EXPECT_EQ(waiting.blobs.status().code(), Code::kRemoteError);
  EXPECT_NE(message.find("(1 came and went away again)"), std::string_view::npos) << message;
}

TEST(Rendezvous, WrongKeyOrJobIsRefused) {
  const auto server = start();
  UniqueId wrong_key = server->id();
  wrong_key.key[7] ^= 1;
  EXPECT_EQ(exchange(wrong_key, 0, 1, "", in_time()).status().code(), Code::kRemoteError);
  UniqueId wrong_job = server->id();
  wrong_job.job[0] ^= 1;
  const Blobs blobs = exchange(wrong_job, 0, 1, "", in_time());
  EXPECT_NE(blobs.status().message().find("communicator"), std::string_view::npos);
  EXPECT_TRUE(exchange(server->id(), 0, 1, "", in_time()).ok());
}

TEST(Rendezvous, NoServerIsATimeoutThatSaysWhere) {
  const testing_support::ReservedPort port;
  UniqueId id = start()->id();
  id.port = port.number();
  const Blobs blobs = exchange(id, 3, 4, "", in(200));
  EXPECT_EQ(blobs.status().code(), Code::kTimeout);
  EXPECT_NE(blobs.status().message().find("127.0.0.1:" + std::to_string(id.port)),
            std::string_view::npos);
}

TEST(Rendezvous, ServerMayStartLate) {
  const testing_support::ReservedPort port;
  UniqueId id = start()->id();
  id.port = port.number();
  std::unique_ptr<Server> server;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    server = std::move(Server::start(id, {})).value();
  });
  EXPECT_TRUE(exchange(id, 0, 1, "x", in_time()).ok());
  later.join();
}

TEST(Rendezvous, SurvivesGarbageAndSilentConnections) {
  const auto server = start();
  const UniqueId& id = server->id();
  Prng random(11);
  std::vector<KeptFd> hanging;
  for (int i = 0; i < 100; ++i) {
    Result<KeptFd> fd = dial(id.addresses[0], id.port, in_time());
    ASSERT_TRUE(fd.ok());
    std::string garbage(random.below(300), ' ');
    for (char& byte : garbage) byte = static_cast<char>(random());
    if (i % 3 != 0) {
      // The server may have hung up already: that is its right.
      (void)send_all(fd.value().get(), garbage.data(), garbage.size(), in_time());
    }
    hanging.push_back(std::move(fd).value());
  }
  for (const Blobs& blobs : run(id, everybody(4), in_time())) {
    EXPECT_TRUE(blobs.ok()) << blobs.status().message();
  }
}

TEST(Rendezvous, ARankThatDiedMayComeAgain) {
  const auto server = start();
  const UniqueId& id = server->id();
  {
    const KeptFd fd = testing_support::bring(id, 0, {2, 0, 0, 1}, "");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (const Blobs& blobs : run(id, everybody(2), in_time())) {
    EXPECT_TRUE(blobs.ok()) << blobs.status().message();
  }
}

TEST(Rendezvous, MembersThatSendGarbageAreRefused) {
  Prng random(3);
  transport::door::Identity self;
  self.rank = 1;
  for (int i = 0; i < 30; ++i) {
    const auto server = start();
    const UniqueId& id = server->id();
    self.communicator = id.communicator();
    Result<KeptFd> fd = dial(id.addresses[0], id.port, in_time());
    ASSERT_TRUE(fd.ok());
    const int socket = fd.value().get();
    ASSERT_TRUE(transport::door::handshake_connect(socket, id.key, self, in_time()).ok());
    // Sizes and blobs at random, but within what the fields can be: the server must look at them.
    auto request =
        encode_request({{static_cast<int>(random()), 0, 0, 1}, random.below(64), random()});
    if (i % 3 == 0) request[5] = 0xff;
    std::string bytes(reinterpret_cast<const char*>(request.data()), request.size());
    bytes.append(random.below(128), 'x');
    (void)send_all(socket, bytes.data(), bytes.size(), in_time());
    shutdown(socket, SHUT_WR);
    char answer[4096];
    (void)receive_exactly(socket, answer, sizeof answer, in_time());  // ends: the server hangs up
    fd = Status::internal_error("closed");
    EXPECT_FALSE(server->finished());
  }
}

TEST(Rendezvous, StoppedServerTellsWhoWaits) {
  auto server = start();
  Waiting rank(server->id(), 0, 2);
  rank.until_said("rank 1 of 2 did not come");
  server.reset();
  rank.thread.join();
  EXPECT_EQ(rank.blobs.status().code(), Code::kRemoteError);
}

TEST(Rendezvous, CreatedIdServesItsGroup) {
  Config config;
  config.socket_ifname = "lo";
  const Result<UniqueId> id = create_unique_id(config, {});
  ASSERT_TRUE(id.ok()) << id.status().message();
  for (const Blobs& blobs : run(id.value(), everybody(3), in_time())) EXPECT_TRUE(blobs.ok());
}

TEST(Rendezvous, ArgumentsAreChecked) {
  const UniqueId id;
  EXPECT_EQ(exchange(id, 2, 2, "", 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(exchange(id, -1, 2, "", 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(exchange(id, 0, 0, "", 0).status().code(), Code::kInvalidArgument);
  const std::string large(kMaxBlobBytes + 1, 'x');
  EXPECT_EQ(exchange(id, 0, 1, large, 0).status().code(), Code::kInvalidArgument);
}

// A listener that serves one group after another, each with a server of its own: whoever comes
// early for the next waits for it, and nobody is told that the last one is over.
TEST(Rendezvous, OneListenerForManyServers) {
  Result<Listener> listener = listen_on(Address::parse("127.0.0.1").value(), 0);
  ASSERT_TRUE(listener.ok());
  UniqueId id;
  id.addresses = {Address::parse("127.0.0.1").value()};
  id.port = listener.value().port;
  ASSERT_TRUE(make_secrets(id).ok());
  ServerOptions options;
  options.one_of_many = true;
  const auto next_server = [&] {
    return Server::start_on(KeptFd(Fd(dup(listener.value().fd.get()))), id, options);
  };
  std::thread early;
  for (int exchange_key = 0; exchange_key < 3; ++exchange_key) {
    auto server = next_server();
    ASSERT_TRUE(server.ok());
    if (early.joinable()) early.join();
    if (exchange_key > 0) continue;  // it served the one who came early, and no other
    for (const Blobs& blobs : run(id, everybody(3), in_time())) EXPECT_TRUE(blobs.ok());
    server.value()->finish(in_time());
    EXPECT_TRUE(server.value()->finished());
    early = std::thread([&] {
      const Blobs blobs = exchange(JoinOptions{id, 0, 1, in_time(), true}, "early");
      EXPECT_TRUE(blobs.ok()) << blobs.status().message();
    });
  }
  listener.value().fd.reset();
  const Blobs refused = exchange(JoinOptions{id, 0, 1, in_time(), true}, "late");
  EXPECT_EQ(refused.status().code(), Code::kRemoteError);
}

}  // namespace
}  // namespace tutti::bootstrap
