// Links that break: mismatched calls, peers that close or die. The first error names the rank and
// stays.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/conformance/transport_crew.h"

namespace tutti::conformance {
namespace {

using transport::Buffer;
using transport::ChannelId;
using transport::ConstBuffer;
using transport::Link;
using transport::Stream;

constexpr ChannelId kChannel{kCommunicator, 1, 0};

constexpr transport::EpochId kEpoch{kCommunicator, 1};

class TransportFailure : public TransportTest {};

bool fails(Link& link) {
  return !drive(link, [] { return false; }) && !link.status().ok();
}

bool says(const Status& status, std::string_view text) {
  return status.message().find(text) != std::string_view::npos;
}

struct Call {
  uint32_t signature;
  size_t bytes;
};

/// Rank 1 sends one thing, rank 0 expects another.
void expect_mismatch(Crew& crew, Call sent, Call expected) {
  std::vector<std::byte> source(sent.bytes), target(expected.bytes);
  in_parallel(2, [&](int r) {
    Link& link = crew.link(r, 1 - r);
    if (r == 0) {
      const Buffer piece{target.data(), target.size()};
      link.stream()->receive(kChannel, expected.signature, {&piece, 1});
    } else {
      const ConstBuffer piece{source.data(), source.size()};
      link.stream()->send(kChannel, sent.signature, {&piece, 1});
    }
    const auto differs = [&] { return !link.stream()->epoch_status(kEpoch).ok(); };
    EXPECT_TRUE(drive(link, differs)) << "rank " << r;
  });
  for (int r = 0; r < 2; ++r) {
    EXPECT_TRUE(crew.link(r, 1 - r).status().ok()) << "the link carries others, too";
    const Status status = crew.link(r, 1 - r).stream()->epoch_status(kEpoch);
    EXPECT_EQ(status.code(), Code::kInvalidUsage) << status.message();
    EXPECT_TRUE(says(status, "rank 0")) << status.message();
    EXPECT_TRUE(says(status, "rank 1")) << status.message();
    EXPECT_TRUE(says(status, std::to_string(sent.bytes))) << status.message();
    EXPECT_TRUE(says(status, std::to_string(expected.bytes))) << status.message();
  }
}

TEST_P(TransportFailure, LengthMismatchIsSaidOnBothSides) {
  for (const size_t bytes : {64, 1 << 20}) {
    auto crew = streaming(2);
    if (crew == nullptr) return;
    expect_mismatch(*crew, {5, bytes}, {5, 128});
  }
}

TEST_P(TransportFailure, SignatureMismatchIsSaidOnBothSides) {
  auto crew = streaming(2);
  if (crew == nullptr) return;
  expect_mismatch(*crew, {0xaaaa, 64}, {0xbbbb, 64});
  for (int r = 0; r < 2; ++r) {
    const Status status = crew->link(r, 1 - r).stream()->epoch_status(kEpoch);
    EXPECT_TRUE(says(status, "aaaa") && says(status, "bbbb")) << status.message();
  }
}

TEST_P(TransportFailure, ABrokenLinkStaysBrokenAndHarmless) {
  auto crew = streaming(2);
  if (crew == nullptr) return;
  crew->rank(1).links.clear();
  Link& link = crew->link(0, 1);
  ASSERT_TRUE(fails(link));
  const std::string first(link.status().message());
  std::vector<std::byte> data(100);
  const ConstBuffer source{data.data(), data.size()};
  const Buffer target{data.data(), data.size()};
  const auto sent = link.stream()->send(kChannel, 1, {&source, 1});
  const auto received = link.stream()->receive(kChannel, 1, {&target, 1});
  for (int i = 0; i < 10; ++i) link.stream()->progress();
  EXPECT_FALSE(link.stream()->sent(sent));
  EXPECT_FALSE(link.stream()->received(received));
  EXPECT_EQ(link.status().message(), first);
}

TEST_P(TransportFailure, AClosedPeerIsNoticedAndNamed) {
  auto crew = streaming(2);
  if (crew == nullptr) return;
  Link& link = crew->link(0, 1);
  std::vector<std::byte> target(8);
  const Buffer piece{target.data(), target.size()};
  const auto ticket = link.stream()->receive(kChannel, 1, {&piece, 1});
  crew->rank(1).links.clear();
  EXPECT_TRUE(fails(link));
  EXPECT_EQ(link.status().code(), Code::kRemoteError) << link.status().message();
  EXPECT_TRUE(says(link.status(), "rank 1")) << link.status().message();
  EXPECT_FALSE(link.stream()->received(ticket));
}

TEST_P(TransportFailure, SendingToAClosedPeerIsNoticed) {
  auto crew = streaming(2);
  if (crew == nullptr) return;
  Link& link = crew->link(0, 1);
  crew->rank(1).links.clear();
  const std::vector<std::byte> data(8);
  const ConstBuffer piece{data.data(), data.size()};
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  while (link.status().ok() && monotonic_ns() < deadline_ns) {
    link.stream()->send(kChannel, 1, {&piece, 1});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(link.status().code(), Code::kRemoteError) << link.status().message();
  EXPECT_TRUE(says(link.status(), "rank 1")) << link.status().message();
}

TEST_P(TransportFailure, WhatWasSentBeforeClosingArrives) {
  for (int round = 0; round < 10; ++round) {
    auto crew = streaming(2);
    if (crew == nullptr) return;
    const auto source = pattern(4 << 20, 3);
    in_parallel(2, [&](int r) {
      Link& link = crew->link(r, 1 - r);
      if (r == 0) {
        const ConstBuffer piece{source.data(), source.size()};
        const auto sent = link.stream()->send(kChannel, 1, {&piece, 1});
        ASSERT_TRUE(drive(link, [&] { return link.stream()->sent(sent); }));
        crew->rank(0).links.clear();
        return;
      }
      std::vector<std::byte> target(source.size());
      const Buffer piece{target.data(), target.size()};
      const auto received = link.stream()->receive(kChannel, 1, {&piece, 1});
      // Bytes that this rank sends meanwhile must not discard those that the other has sent.
      const std::byte noise[100] = {};
      const ConstBuffer noise_piece{noise, sizeof noise};
      const auto noisy = [&] {
        link.stream()->send({kCommunicator, 1, 1}, 1, {&noise_piece, 1});
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return link.stream()->received(received);
      };
      ASSERT_TRUE(drive(link, noisy)) << link.status().message();
      ASSERT_TRUE(source == target);
    });
  }
}

TEST_P(TransportFailure, AKilledProcessHangsUp) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer lets no child of a process with threads have its own";
#endif
  auto crew = Crew::create(GetParam(), 2);
  ASSERT_NE(crew, nullptr);
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  int says_usable[2];
  ASSERT_EQ(pipe(says_usable), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // has neither the threads nor the sockets of its parent: rank 0 anew
    alarm(3 * kPatienceNs / kNanosecondsPerSecond);
    auto other = Crew::create(GetParam(), 2);
    const char usable = other != nullptr ? 'y' : 'n';
    if (write(says_usable[1], &usable, 1) != 1 || other == nullptr) _exit(1);
    const std::string card = crew->rank(1).transport->card();
    const bool good = other->connect_one(0, 1, card, deadline_ns).ok();
    while (good) pause();
    _exit(1);
  }
  char usable = 0;
  const bool heard = read(says_usable[0], &usable, 1) == 1;
  close(says_usable[0]);
  close(says_usable[1]);
  ASSERT_TRUE(heard);
  if (usable != 'y') {
    waitpid(child, nullptr, 0);
    GTEST_SKIP() << GetParam().name << " is not for a child forked by a process that uses it";
  }
  const Status status = crew->connect_one(1, 0, deadline_ns);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(status.ok()) << status.message();
  if (crew->link(1, 0).liveness_fd() < 0) {
    GTEST_SKIP() << GetParam().name << " does not join processes";
  }
  Link& link = crew->link(1, 0);
  pollfd entry{link.liveness_fd(), POLLIN | POLLRDHUP, 0};
  EXPECT_EQ(poll(&entry, 1, 1000), 1) << "one second after the death";
  if (link.stream() == nullptr) return;
  EXPECT_TRUE(fails(link));
  EXPECT_EQ(link.status().code(), Code::kRemoteError);
  EXPECT_TRUE(says(link.status(), "rank 0")) << link.status().message();
}

TUTTI_FOR_EVERY_TRANSPORT(TransportFailure);

}  // namespace
}  // namespace tutti::conformance
