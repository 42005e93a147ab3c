#include "src/transport/door/handshake.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/base/prng.h"

namespace tutti::transport::door {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;
constexpr size_t kTranscriptBytes = kHelloBytes + kProofBytes;

uint64_t in(uint64_t milliseconds) { return monotonic_ns() + milliseconds * kMillisecond; }
uint64_t in_time() { return in(60'000); }  // for what is on its way

/// The accepting side in one call: the rank that called.
Result<int> handshake_accept(int fd, const JobKey& key, const Identity& self,
                             uint64_t deadline_ns) {
  Greeting greeting(fd, one_lock(key, self));
  for (;;) {
    const Result<bool> done = greeting.advance();
    if (!done.ok()) return done.status();
    if (done.value()) return greeting.rank();
    if (!wait_ready(fd, POLLIN, deadline_ns)) {
      return Status::timeout("the caller did not finish the handshake in time");
    }
  }
}

struct Pair {
  Fd a;
  Fd b;
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    a.reset(fds[0]);
    b.reset(fds[1]);
  }
};

JobKey key_of(uint8_t seed) {
  JobKey key{};
  key.fill(seed);
  return key;
}

Identity caller() { return {3, 5, 77, 2, purpose_of("shm")}; }
Identity acceptor() { return {5, -1, 77, 2, purpose_of("shm")}; }

struct Outcome {
  Status connected;
  Result<int> accepted = Status::internal_error("did not run");
};

Outcome shake(const Identity& c, const JobKey& c_key, const Identity& a, const JobKey& a_key) {
  Pair pair;
  Outcome outcome;
  std::thread other([&] {
    outcome.accepted = handshake_accept(pair.b.get(), a_key, a, in_time());
    pair.b.reset();
  });
  outcome.connected = handshake_connect(pair.a.get(), c_key, c, in_time());
  other.join();
  return outcome;
}

TEST(Handshake, BothSidesAgree) {
  const Outcome outcome = shake(caller(), key_of(1), acceptor(), key_of(1));
  EXPECT_TRUE(outcome.connected.ok()) << outcome.connected.message();
  ASSERT_TRUE(outcome.accepted.ok()) << outcome.accepted.status().message();
  EXPECT_EQ(outcome.accepted.value(), 3);

  Identity expecting = acceptor();
  expecting.peer = 3;
  EXPECT_TRUE(shake(caller(), key_of(1), expecting, key_of(1)).accepted.ok());
}

TEST(Handshake, NothingThatFollowsIsSwallowed) {
  Pair pair;
  std::thread other([&] {
    EXPECT_TRUE(handshake_accept(pair.b.get(), key_of(1), acceptor(), in_time()).ok());
    EXPECT_TRUE(send_all(pair.b.get(), "data", 4, in_time()).ok());
    char text[4];
    EXPECT_TRUE(receive_exactly(pair.b.get(), text, 4, in_time()).ok());
    EXPECT_EQ(std::string(text, 4), "more");
  });
  EXPECT_TRUE(handshake_connect(pair.a.get(), key_of(1), caller(), in_time()).ok());
  EXPECT_TRUE(send_all(pair.a.get(), "more", 4, in_time()).ok());
  char text[4];
  EXPECT_TRUE(receive_exactly(pair.a.get(), text, 4, in_time()).ok());
  EXPECT_EQ(std::string(text, 4), "data");
  other.join();
}

TEST(Handshake, WrongKeyIsRefusedOnBothSides) {
  const Outcome outcome = shake(caller(), key_of(1), acceptor(), key_of(2));
  EXPECT_EQ(outcome.connected.code(), Code::kRemoteError);
  EXPECT_EQ(outcome.accepted.status().code(), Code::kRemoteError);
  EXPECT_NE(outcome.accepted.status().message().find("key"), std::string_view::npos);
}

TEST(Handshake, DifferencesAreNamedOnBothSides) {
  const auto check = [](auto change, const std::string& word) {
    Identity other = caller();
    change(other);
    const Outcome outcome = shake(other, key_of(1), acceptor(), key_of(1));
    EXPECT_EQ(outcome.connected.code(), Code::kRemoteError) << word;
    EXPECT_EQ(outcome.accepted.status().code(), Code::kRemoteError) << word;
    EXPECT_NE(outcome.accepted.status().message().find(word), std::string_view::npos)
        << outcome.accepted.status().message();
  };
  check([](Identity& who) { who.communicator = 78; }, "communicator is 78, this rank's is 77");
  check([](Identity& who) { who.epoch = 1; }, "epoch is 1");
  check([](Identity& who) { who.purpose = purpose_of("tcp"); }, "purpose");
  check([](Identity& who) { who.rank = -1; }, "does not say which rank");
  check([](Identity& who) { who.peer = 4; }, "wants rank 4");

  Identity expecting = acceptor();
  expecting.peer = 2;
  const Outcome outcome = shake(caller(), key_of(1), expecting, key_of(1));
  EXPECT_NE(outcome.accepted.status().message().find("expected rank 2"), std::string_view::npos);
}

/// Forwards between a caller and an acceptor; `change` sees each byte with its position in its
/// direction's transcript.
Outcome shake_through(const std::function<void(bool from_caller, std::string& bytes)>& change) {
  Pair left;
  Pair right;
  Outcome outcome;
  std::thread c([&] {
    outcome.connected = handshake_connect(left.a.get(), key_of(1), caller(), in_time());
    left.a.reset();
  });
  std::thread a([&] {
    outcome.accepted = handshake_accept(right.b.get(), key_of(1), acceptor(), in_time());
    right.b.reset();
  });
  const auto forward = [&](int source, int target, bool from_caller, size_t bytes) {
    std::string text(bytes, ' ');
    if (!receive_exactly(source, text.data(), bytes, in_time()).ok()) return false;
    change(from_caller, text);
    return send_all(target, text.data(), text.size(), in_time()).ok();
  };
  const int l = left.b.get();
  const int r = right.a.get();
  const bool whole = forward(l, r, true, kHelloBytes) && forward(r, l, false, kHelloBytes) &&
                     forward(l, r, true, kProofBytes) && forward(r, l, false, kProofBytes);
  (void)whole;
  left.b.reset();
  right.a.reset();
  c.join();
  a.join();
  return outcome;
}

TEST(Handshake, EveryAlteredBitIsFound) {
  EXPECT_TRUE(shake_through([](bool, std::string&) {}).connected.ok());
  for (const bool from_caller : {true, false}) {
    for (size_t at = 0; at < kTranscriptBytes; ++at) {
      size_t seen = 0;
      const Outcome outcome = shake_through([&](bool direction, std::string& bytes) {
        if (direction != from_caller) return;
        if (at >= seen && at < seen + bytes.size()) bytes[at - seen] ^= 0x10;
        seen += bytes.size();
      });
      EXPECT_FALSE(outcome.connected.ok()) << from_caller << " " << at;
      // The acceptor's own proof is the last message: only the caller can see that it was altered.
      const bool last = !from_caller && at >= kHelloBytes;
      EXPECT_EQ(outcome.accepted.ok(), last) << from_caller << " " << at;
    }
  }
}

TEST(Handshake, ReplayedTranscriptIsRefused) {
  std::string from_caller;
  std::string from_acceptor;
  ASSERT_TRUE(shake_through([&](bool direction, std::string& bytes) {
                (direction ? from_caller : from_acceptor) += bytes;
              }).connected.ok());
  Pair pair;
  ASSERT_TRUE(send_all(pair.a.get(), from_caller.data(), from_caller.size(), in_time()).ok());
  EXPECT_FALSE(handshake_accept(pair.b.get(), key_of(1), acceptor(), in_time()).ok());

  Pair again;
  ASSERT_TRUE(send_all(again.b.get(), from_acceptor.data(), from_acceptor.size(), in_time()).ok());
  EXPECT_FALSE(handshake_connect(again.a.get(), key_of(1), caller(), in_time()).ok());
}

TEST(Handshake, ReflectedBytesAreRefused) {
  Pair pair;
  std::thread mirror([&] {
    std::string bytes(kTranscriptBytes, ' ');
    for (char& byte : bytes) {
      if (!receive_exactly(pair.b.get(), &byte, 1, in_time()).ok()) return;
      if (!send_all(pair.b.get(), &byte, 1, in_time()).ok()) return;
    }
  });
  Identity self = caller();
  self.peer = self.rank;  // even then
  const Status status = handshake_connect(pair.a.get(), key_of(1), self, in_time());
  EXPECT_EQ(status.code(), Code::kRemoteError);
  pair.a.reset();
  mirror.join();
}

TEST(Handshake, TruncatedAndGarbageAreRefused) {
  Prng random(5);
  for (size_t bytes = 0; bytes < kTranscriptBytes; bytes += 13) {
    Pair pair;
    std::string garbage(bytes, ' ');
    for (char& byte : garbage) byte = static_cast<char>(random());
    ASSERT_TRUE(send_all(pair.a.get(), garbage.data(), garbage.size(), in_time()).ok());
    shutdown(pair.a.get(), SHUT_WR);
    const Result<int> rank = handshake_accept(pair.b.get(), key_of(1), acceptor(), in_time());
    EXPECT_EQ(rank.status().code(), Code::kRemoteError) << bytes;
  }
}

TEST(Handshake, SlowAndSilentPeersEndAtTheDeadline) {
  Pair pair;
  EXPECT_EQ(handshake_accept(pair.b.get(), key_of(1), acceptor(), in(50)).status().code(),
            Code::kTimeout);
  EXPECT_EQ(handshake_connect(pair.a.get(), key_of(1), caller(), in(50)).code(), Code::kTimeout);
}

TEST(Handshake, BytesMayComeOneByOne) {
  Pair left;
  Pair right;
  Outcome outcome;
  std::thread c(
      [&] { outcome.connected = handshake_connect(left.a.get(), key_of(1), caller(), in_time()); });
  std::thread a([&] {
    outcome.accepted = handshake_accept(right.b.get(), key_of(1), acceptor(), in_time());
  });
  const auto trickle = [&](int source, int target, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      char byte = 0;
      ASSERT_TRUE(receive_exactly(source, &byte, 1, in_time()).ok());
      ASSERT_TRUE(send_all(target, &byte, 1, in_time()).ok());
      if (i % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  trickle(left.b.get(), right.a.get(), kHelloBytes);
  trickle(right.a.get(), left.b.get(), kHelloBytes);
  trickle(left.b.get(), right.a.get(), kProofBytes);
  trickle(right.a.get(), left.b.get(), kProofBytes);
  c.join();
  a.join();
  EXPECT_TRUE(outcome.connected.ok()) << outcome.connected.message();
  EXPECT_TRUE(outcome.accepted.ok());
}

}  // namespace
}  // namespace tutti::transport::door
