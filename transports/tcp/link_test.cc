// Two links over a pair of sockets: what only a full socket shows.
#include "transports/tcp/link.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/clock.h"

namespace tutti::transports::tcp {
namespace {

constexpr transport::ChannelId kData{1, 0, 0};
constexpr transport::ChannelId kNotes{1, 0, 77};
constexpr size_t kBytes = 32 << 20;  // more than sockets hold
constexpr uint64_t kPatienceNs = 60 * kNanosecondsPerSecond;

std::unique_ptr<TcpLink> link_of(int rank, const std::string& where) {
  const auto member = [](int of) { return MemberId{{1, 1}, static_cast<uint32_t>(of)}; };
  return std::make_unique<TcpLink>(
      TcpLink::Party{rank, 1 - rank, where, kData.communicator, kData.epoch, {}},
      std::make_shared<Connection>(member(rank), member(1 - rank)));
}

struct Links {
  Links() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    zero = link_of(0, "here");
    one = link_of(1, "there");
    zero->connection()->adopt(*zero, KeptFd(Fd(fds[0])), {});
    one->connection()->adopt(*one, KeptFd(Fd(fds[1])), {});
  }

  /// Rank 1 has asked for much and does not read: rank 0 writes until nothing more fits.
  void fill() {
    const transport::Buffer target{received.data(), received.size()};
    one->receive(kData, 7, {&target, 1});
    const transport::ConstBuffer source{sent.data(), sent.size()};
    zero->send(kData, 7, {&source, 1});
    constexpr int kTurns = 1000;
    for (int turn = 0; turn < kTurns; ++turn) zero->progress();
  }

  std::vector<std::byte> sent = std::vector<std::byte>(kBytes, std::byte{1});
  std::vector<std::byte> received = std::vector<std::byte>(kBytes);
  std::unique_ptr<TcpLink> zero, one;
};

TEST(TcpLink, LastWordsWaitForRoom) {
  Links links;
  links.fill();
  const transport::Note note{{1, 2}, {3, 4}};
  links.zero->tell(kNotes, note);
  EXPECT_FALSE(links.zero->hang_up());
  links.sent.assign(kBytes, std::byte{2});  // the caller's again
  transport::Note heard;
  while (links.one->status().ok()) {
    links.one->progress();
    links.zero->progress();
  }
  EXPECT_TRUE(links.zero->hang_up());
  ASSERT_EQ(links.one->heard(kNotes, heard), 1u);
  EXPECT_EQ(heard, note);
  for (const std::byte byte : links.received) ASSERT_NE(byte, std::byte{2});
}

/// Whether rank 1 has heard the note; `stood_still`: it did not read for so long that rank 0 may
/// have given it up.
bool hears_a_link_that_ends(bool& stood_still) {
  constexpr uint64_t kLongNs = 300'000'000;
  Links links;
  links.fill();
  const transport::Note note{{1, 2}, {3, 4}};
  links.zero->tell(kNotes, note);
  uint64_t last_ns = monotonic_ns();
  std::thread end([&] { links.zero.reset(); });
  while (links.one->status().ok()) {
    links.one->progress();
    const uint64_t before_ns = std::exchange(last_ns, monotonic_ns());
    stood_still = stood_still || last_ns - before_ns > kLongNs;
  }
  end.join();
  transport::Note heard;
  return links.one->heard(kNotes, heard) == 1 && heard == note;
}

TEST(TcpLink, ALinkThatEndsSaysFirstWhatHadNoRoom) {
  constexpr int kMostTries = 10;
  bool heard = false, stood_still = true;
  for (int i = 0; i < kMostTries && !heard && stood_still; ++i) {
    stood_still = false;
    heard = hears_a_link_that_ends(stood_still);
  }
  EXPECT_TRUE(heard);
}

// Both wait for room, and neither reads what the other sends.
TEST(TcpLink, LastWordsOfBothSides) {
  Links links;
  std::vector<std::byte> back(kBytes, std::byte{3}), target(kBytes);
  const transport::Buffer buffer{target.data(), target.size()};
  links.zero->receive(kData, 7, {&buffer, 1});
  links.one->progress();
  links.fill();
  const transport::ConstBuffer source{back.data(), back.size()};
  links.one->send(kData, 7, {&source, 1});
  const transport::Note note{{1, 2}, {3, 4}};
  for (TcpLink* link : {links.zero.get(), links.one.get()}) link->tell(kNotes, note);
  bool zero = links.zero->hang_up(), one = links.one->hang_up();
  constexpr int kTurns = 10'000;
  for (int turn = 0; turn < kTurns && !(zero && one); ++turn) {
    zero = links.zero->hang_up();
    one = links.one->hang_up();
  }
  EXPECT_TRUE(zero && one);
}

TEST(TcpLink, NothingIsReadAfterHangingUp) {
  Links links;
  const transport::Buffer target{links.received.data(), links.received.size()};
  links.zero->receive(kData, 7, {&target, 1});
  links.one->progress();
  EXPECT_TRUE(links.zero->hang_up());
  const transport::ConstBuffer source{links.sent.data(), links.sent.size()};
  links.one->send(kData, 7, {&source, 1});
  constexpr int kTurns = 100;
  for (int turn = 0; turn < kTurns; ++turn) {
    links.one->progress();
    links.zero->progress();
  }
  for (const std::byte byte : links.received) ASSERT_EQ(byte, std::byte{0});
}

// A thread that reads may have nobody to throw to, and a message that it has read by half makes
// nonsense of the rest.
TEST(TcpLink, WithoutMemoryToReadWithItIsDeadAndSaysWhy) {
  Links links;
  links.one->on_note([](transport::ChannelId) { throw std::bad_alloc(); });
  links.zero->tell(kNotes, transport::Note{{1, 2}, {3, 4}});
  EXPECT_NO_THROW(links.one->progress());
  EXPECT_EQ(links.one->status().code(), Code::kSystemError);
  const std::string message(links.one->status().message());
  EXPECT_NE(message.find("rank 1 cannot go on with rank 0"), std::string::npos) << message;
  EXPECT_NE(message.find("no memory is left"), std::string::npos) << message;
  links.zero->progress();
  EXPECT_EQ(links.zero->status().code(), Code::kRemoteError);
}

// Many links end together: the wait limit of each begins when it is asked first.
TEST(TcpLink, WhoWaitsForAConnectionAsksWhetherItStillMakesSense) {
  const auto link = link_of(0, "here");  // nobody connects it
  int asked = 0;
  const WaitLimit wait_limit = WaitLimit(monotonic_ns() + kPatienceNs).as_long_as([&] {
    return ++asked < 2 ? Status() : Status::remote_error("rank 1 is gone");
  });
  EXPECT_EQ(link->await(wait_limit).message(), "rank 1 is gone");
  EXPECT_EQ(asked, 2);
}

TEST(TcpLink, LingersForAWhileOnly) {
  constexpr auto kMoreThanItsPatience = std::chrono::milliseconds(1100);
  Links links[3];
  for (Links& pair : links) {
    pair.fill();  // and the peer does not read
    EXPECT_TRUE(pair.zero->linger());
  }
  std::this_thread::sleep_for(kMoreThanItsPatience);
  for (Links& pair : links) EXPECT_FALSE(pair.zero->linger());
}

// The owner of a region frees it as soon as withdraw() says so.
TEST(TcpLink, AfterALossNothingOfARegionIsRead) {
  constexpr transport::ChannelId kRegion{1, 0, 9};
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Links links;
  links.zero->expose(kRegion, {static_cast<std::byte*>(memory), kBytes, nullptr, 0});
  links.one->get(kRegion, 0, {links.received.data(), kBytes});
  links.one->progress();
  constexpr int kTurns = 100;
  for (int turn = 0; turn < kTurns; ++turn) links.zero->progress();  // an answer is half out
  ASSERT_TRUE(links.zero->has_output());
  links.one.reset();
  while (links.zero->status().ok()) links.zero->progress();
  ASSERT_TRUE(links.zero->withdraw(kRegion));
  ASSERT_EQ(munmap(memory, kBytes), 0);
  EXPECT_TRUE(links.zero->hang_up());
}

}  // namespace
}  // namespace tutti::transports::tcp
