// Descriptors that forked children do not have: at no time between the call that makes one and the
// call that closes it.
#include "src/base/fork.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "src/base/poll_set.h"
#include "tests/support/forked.h"

namespace tutti {
namespace {

using testing_support::a_child_has_socket;

int make_socket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

TEST(KeptFd, NoForkedChildHasIt) {
  const Fd plain(make_socket());
  EXPECT_TRUE(a_child_has_socket(plain.get()));
  KeptFd made = KeptFd::open(make_socket);
  EXPECT_FALSE(a_child_has_socket(made.get()));
  KeptFd moved(std::move(made));
  EXPECT_FALSE(a_child_has_socket(moved.get()));
  made = std::move(moved);
  ASSERT_TRUE(made.valid());
  EXPECT_FALSE(a_child_has_socket(made.get()));
}

TEST(KeptFd, WhoeverGetsItFromASetHasItAlone) {
  const auto set = PollSet::create();
  ASSERT_TRUE(set.ok());
  PolledFd listed(KeptFd::open(make_socket));
  ASSERT_TRUE(listed.list(*set.value(), EPOLLIN, 1).ok());
  const auto taken = listed.take();
  EXPECT_FALSE(a_child_has_socket(taken.get()));
}

TEST(KeptFd, AForkWaitsForOneThatIsBeingMade) {
  constexpr std::chrono::milliseconds kLong{100};
  std::atomic<int> number{-1};
  std::atomic<bool> forks{false}, child_has_it{true};
  std::thread forking;
  const KeptFd made = KeptFd::open([&] {
    number.store(make_socket());
    forking = std::thread([&] {
      forks.store(true);
      child_has_it.store(a_child_has_socket(number.load()));
    });
    while (!forks.load()) std::this_thread::yield();
    std::this_thread::sleep_for(kLong);
    return number.load();
  });
  forking.join();
  EXPECT_FALSE(child_has_it.load());
}

// Its number may be another file's by then, which is the child's, too.
TEST(KeptFd, WhatIsClosedIsKeptNoLonger) {
  KeptFd made = KeptFd::open(make_socket);
  made.reset();
  EXPECT_FALSE(made.valid());
  const Fd plain(make_socket());  // by the same number
  EXPECT_TRUE(a_child_has_socket(plain.get()));
}

}  // namespace
}  // namespace tutti
