#include "src/bootstrap/watch.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "src/base/clock.h"

namespace tutti::bootstrap {
namespace {

using std::chrono::milliseconds;

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

std::unique_ptr<Watch> make_watch() {
  Result<std::unique_ptr<Watch>> watch = Watch::create();
  EXPECT_TRUE(watch.ok()) << watch.status().message();
  return std::move(watch).value();
}

/// Watches for the hang-up and calls once.
Status add(Watch& watch, int fd, std::function<void()> call) {
  return watch.attend(fd, Watch::News::kHangUp, [call = std::move(call)] {
    call();
    return uint64_t{0};
  });
}

bool reaches(const std::atomic<int>& count, int wanted) {
  constexpr int kPatienceMs = 60'000;
  for (int i = 0; i < kPatienceMs && count < wanted; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  return count >= wanted;
}

bool comes_true(const std::atomic<int>& count, int wanted) {
  return reaches(count, wanted) && count == wanted;
}

TEST(Watch, HangUpRunsTheCallbackOnce) {
  const auto watch = make_watch();
  Pair pair;
  std::atomic<int> calls{0};
  ASSERT_TRUE(add(*watch, pair.a.get(), [&] { ++calls; }).ok());
  ASSERT_EQ(write(pair.b.get(), "data", 4), 4);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(calls, 0) << "data is no hang-up";
  pair.b.reset();
  EXPECT_TRUE(comes_true(calls, 1));
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(calls, 1);
  watch->remove(pair.a.get());
}

TEST(Watch, KilledProcessIsNoticedThroughItsPidfd) {
  const auto watch = make_watch();
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  if (!process.valid()) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    GTEST_SKIP() << "no pidfd_open";
  }
  std::atomic<int> calls{0};
  ASSERT_TRUE(add(*watch, process.get(), [&] { ++calls; }).ok());
  kill(child, SIGKILL);
  EXPECT_TRUE(comes_true(calls, 1));
  watch->remove(process.get());
  waitpid(child, nullptr, 0);
}

TEST(Watch, GatheredDescriptorsHaveNewsWhenTheyAreReadable) {
  const auto watch = make_watch();
  Pair pair;
  const Fd gathered(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLRDHUP;
  ASSERT_EQ(epoll_ctl(gathered.get(), EPOLL_CTL_ADD, pair.a.get(), &event), 0);
  std::atomic<int> calls{0};
  ASSERT_TRUE(add(*watch, gathered.get(), [&] { ++calls; }).ok());
  pair.b.reset();
  EXPECT_TRUE(comes_true(calls, 1));
  watch->remove(gathered.get());
}

TEST(Watch, RemovedDescriptorsAreForgotten) {
  const auto watch = make_watch();
  Pair pair;
  std::atomic<int> calls{0};
  ASSERT_TRUE(add(*watch, pair.a.get(), [&] { ++calls; }).ok());
  EXPECT_FALSE(add(*watch, pair.a.get(), [&] { ++calls; }).ok()) << "twice";
  watch->remove(pair.a.get());
  watch->remove(pair.a.get());
  watch->remove(12345);
  pair.b.reset();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(calls, 0);
  EXPECT_FALSE(add(*watch, -1, [] {}).ok());
}

TEST(Watch, RemoveWaitsForARunningCallback) {
  const auto watch = make_watch();
  Pair pair;
  std::atomic<int> entered{0};
  std::atomic<bool> left{false};
  const auto slow = [&] {
    ++entered;
    std::this_thread::sleep_for(milliseconds(50));
    left = true;
  };
  ASSERT_TRUE(add(*watch, pair.a.get(), slow).ok());
  pair.b.reset();
  ASSERT_TRUE(comes_true(entered, 1));
  watch->remove(pair.a.get());
  EXPECT_TRUE(left);
}

TEST(Watch, CallbackMayRemoveItself) {
  const auto watch = make_watch();
  Pair pair;
  std::atomic<int> calls{0};
  ASSERT_TRUE(add(*watch, pair.a.get(), [&] {
                watch->remove(pair.a.get());
                ++calls;
              }).ok());
  pair.b.reset();
  EXPECT_TRUE(comes_true(calls, 1));
}

TEST(Watch, ManyComeAndGo) {
  const auto watch = make_watch();
  std::vector<std::thread> threads;
  std::atomic<int> calls{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        Pair pair;
        ASSERT_TRUE(add(*watch, pair.a.get(), [&] { ++calls; }).ok());
        if (i % 2 == 0) pair.b.reset();
        watch->remove(pair.a.get());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(calls, 400);
}

TEST(Watch, EndsCleanlyWithOpenEntries) {
  Pair pair;
  const auto watch = make_watch();
  ASSERT_TRUE(add(*watch, pair.a.get(), [] {}).ok());
}

TEST(Watch, ATimerRunsItsCallbackAgainAndAgain) {
  const auto watch = make_watch();
  const Fd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  const itimerspec often{{0, 1'000'000}, {0, 1'000'000}};
  ASSERT_EQ(timerfd_settime(timer.get(), 0, &often, nullptr), 0);
  std::atomic<int> calls{0};
  const auto on_time = [&] {
    uint64_t times = 0;
    if (read(timer.get(), &times, sizeof times) > 0) ++calls;
    return uint64_t{0};
  };
  ASSERT_TRUE(watch->attend(timer.get(), Watch::News::kInput, on_time).ok());
  EXPECT_TRUE(reaches(calls, 3));
  watch->remove(timer.get());
  const int last = calls;
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(calls, last);
}

TEST(Watch, InputRestsAndIsHeardOfAgain) {
  const auto watch = make_watch();
  Pair pair;
  std::atomic<int> visits{0};
  std::atomic<uint64_t> rest_ns{3600 * kNanosecondsPerSecond};
  const auto visit = [&] {
    ++visits;
    return rest_ns.load();
  };
  ASSERT_TRUE(watch->attend(pair.a.get(), Watch::News::kInput, visit).ok());
  ASSERT_EQ(write(pair.b.get(), "x", 1), 1);
  EXPECT_TRUE(comes_true(visits, 1));
  ASSERT_EQ(write(pair.b.get(), "y", 1), 1);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(visits, 1) << "it rests";
  watch->remove(pair.a.get());
  rest_ns = 1'000'000;
  ASSERT_TRUE(watch->attend(pair.a.get(), Watch::News::kInput, visit).ok());
  EXPECT_TRUE(reaches(visits, 4)) << "nobody has read";
  watch->remove(pair.a.get());
  const int last = visits;
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(visits, last) << "removed while it rested";
}

TEST(Watch, OutputIsHeardOfOnceForEachWish) {
  const auto watch = make_watch();
  Pair pair;
  const int fd = pair.a.get();
  std::atomic<int> visits{0};
  std::atomic<int> wishes{3};
  const auto visit = [&] {
    if (--wishes > 0) watch->hear_output(fd);
    ++visits;
    return uint64_t{0};
  };
  watch->hear_output(fd);  // nobody attends to it
  ASSERT_TRUE(watch->attend(fd, Watch::News::kInput, visit).ok());
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(visits, 0) << "a socket is writable all the time";
  watch->hear_output(fd);
  EXPECT_TRUE(comes_true(visits, 3));
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(visits, 3);
  watch->remove(fd);
}

TEST(Watch, OutputEndsARest) {
  const auto watch = make_watch();
  Pair pair;
  std::atomic<int> visits{0};
  const auto visit = [&] { return ++visits, Watch::kForEver; };
  ASSERT_TRUE(watch->attend(pair.a.get(), Watch::News::kInput, visit).ok());
  ASSERT_EQ(write(pair.b.get(), "x", 1), 1);
  EXPECT_TRUE(comes_true(visits, 1));
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(visits, 1) << "nobody has read, but it rests for ever";
  watch->hear_output(pair.a.get());
  EXPECT_TRUE(comes_true(visits, 2));
  watch->remove(pair.a.get());
}

TEST(Watch, AHangUpIsLookedAtUntilItIsUnderstood) {
  const auto watch = make_watch();
  Pair pair;
  std::atomic<int> looks{0};
  const auto look = [&] { return uint64_t{++looks < 3 ? 1'000'000u : 0u}; };
  ASSERT_TRUE(watch->attend(pair.a.get(), Watch::News::kHangUp, look).ok());
  pair.b.reset();
  EXPECT_TRUE(comes_true(looks, 3));
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(looks, 3);
  watch->remove(pair.a.get());
}

}  // namespace
}  // namespace tutti::bootstrap
