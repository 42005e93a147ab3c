// Which signals reach the threads of the library.
#include "src/base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <csignal>

namespace tutti {
namespace {

TEST(Thread, HearsTheSignalsThatItCausesItselfAndNoOthers) {
  sigset_t blocked;
  sigemptyset(&blocked);
  Result<std::thread> thread =
      start_thread("listener", [&] { pthread_sigmask(SIG_BLOCK, nullptr, &blocked); });
  ASSERT_TRUE(thread.ok());
  thread.value().join();
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
    EXPECT_EQ(sigismember(&blocked, own), 0) << own;
  }
  for (const int others : {SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGUSR1, SIGHUP, SIGPIPE}) {
    EXPECT_EQ(sigismember(&blocked, others), 1) << others;
  }
}

}  // namespace
}  // namespace tutti
