#include "tests/support/system_calls.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "tests/support/sanitizer.h"

namespace tutti::testing_support {
namespace {

// In a thread of its own: the watch lasts as long as that.
TEST(SystemCalls, AreCountedAndMade) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has signal handlers of its own";
  std::thread([] {
    const pid_t parent = getppid();
    if (!watch_system_calls()) GTEST_SKIP() << "seccomp is not to be had here";
    const uint64_t before = system_calls();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(getppid(), parent);
    sched_yield();
    EXPECT_EQ(system_calls(), before + 5);
    EXPECT_EQ(last_system_call(), SYS_getppid);
    EXPECT_EQ(close(-1), -1);
    EXPECT_EQ(errno, EBADF);
  }).join();
}

}  // namespace
}  // namespace tutti::testing_support
