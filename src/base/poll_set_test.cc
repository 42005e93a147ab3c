#include "src/base/poll_set.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace tutti {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    ours = KeptFd(Fd(fds[0]));
    theirs = Fd(fds[1]);
  }
  KeptFd ours;
  Fd theirs;
};

size_t count_ready(const PollSet& set) {
  std::array<epoll_event, 8> events;
  return set.ready(events).size();
}

TEST(PollSet, TellsWhatIsReadyByItsTag) {
  const auto set = PollSet::create();
  ASSERT_TRUE(set.ok());
  Pair one, two;
  PolledFd first(std::move(one.ours)), second(std::move(two.ours));
  ASSERT_TRUE(first.list(*set.value(), EPOLLIN, 7).ok());
  ASSERT_TRUE(second.list(*set.value(), EPOLLIN, 8).ok());
  EXPECT_EQ(count_ready(*set.value()), 0u);
  two.theirs.reset();
  std::array<epoll_event, 8> events;
  const auto ready = set.value()->ready(events);
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].data.u64, 8u);
  ASSERT_TRUE(first.list(*set.value(), EPOLLOUT, 7).ok());  // waits for something else
  EXPECT_EQ(count_ready(*set.value()), 2u);
}

TEST(PollSet, WhatMovesStaysAndWhatIsTakenLeaves) {
  const auto set = PollSet::create();
  ASSERT_TRUE(set.ok());
  Pair pair;
  PolledFd moved;
  {
    PolledFd listed(std::move(pair.ours));
    ASSERT_TRUE(listed.list(*set.value(), EPOLLOUT, 1).ok());
    moved = std::move(listed);
  }
  EXPECT_EQ(count_ready(*set.value()), 1u);
  const auto taken = moved.take();
  EXPECT_TRUE(taken.valid());
  EXPECT_EQ(count_ready(*set.value()), 0u);
}

// Without leaving the set it would be ready for as long as the child lives.
TEST(PollSet, AClosedDescriptorThatAChildHoldsIsNotReady) {
  const auto set = PollSet::create();
  ASSERT_TRUE(set.ok());
  Pair pair, life;
  const Fd copy(dup(pair.ours.get()));  // what a vfork would keep
  {
    PolledFd listed(std::move(pair.ours));
    ASSERT_TRUE(listed.list(*set.value(), EPOLLOUT, 1).ok());
    EXPECT_EQ(count_ready(*set.value()), 1u);
  }
  EXPECT_EQ(count_ready(*set.value()), 0u);
}

TEST(PollSet, AForkedChildChangesNothing) {
  const auto set = PollSet::create();
  ASSERT_TRUE(set.ok());
  Pair pair;
  PolledFd listed(std::move(pair.ours));
  ASSERT_TRUE(listed.list(*set.value(), EPOLLOUT, 1).ok());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    listed = PolledFd();
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(count_ready(*set.value()), 1u);
}

}  // namespace
}  // namespace tutti
