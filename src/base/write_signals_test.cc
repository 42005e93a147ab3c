// Writing where nobody reads, and past the limit of file sizes: errors, and no signal.
#include "src/base/write_signals.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "src/base/log.h"
#include "src/base/memory_file.h"

namespace tutti {
namespace {

/// The writing end of a pipe that nobody reads.
int make_unread() {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  close(ends[0]);
  return ends[1];
}

bool is_pending(int signal) {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, signal) == 1;
}

TEST(WriteSignals, APipeThatNobodyReadsIsAnErrorAndNoSignal) {
  const int unread = make_unread();
  EXPECT_EQ(write_quietly(unread, "lost"), -1);  // whose signal would end this program
  EXPECT_EQ(errno, EPIPE);
  EXPECT_FALSE(is_pending(SIGPIPE));
  close(unread);
}

TEST(WriteSignals, ThatAreTheProgramsOwnStayPending) {
  sigset_t pipe, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const int unread = make_unread();
  EXPECT_EQ(write(unread, "lost", 4), -1);
  ASSERT_TRUE(is_pending(SIGPIPE));
  EXPECT_EQ(write_quietly(unread, "lost"), -1);
  EXPECT_TRUE(is_pending(SIGPIPE));
  int taken = 0;
  EXPECT_EQ(sigwait(&pipe, &taken), 0);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(unread);
}

TEST(WriteSignals, ALogLineThatNobodyReadsEndsNoProgram) {
  const auto log_to_nobody = [] {
    dup2(make_unread(), STDERR_FILENO);
    Logger(LogLevel::kError).error("{}", "lost");
    std::_Exit(0);
  };
  EXPECT_EXIT(log_to_nobody(), testing::ExitedWithCode(0), "");
}

TEST(MemoryFile, PastTheLimitOfFileSizesIsAnErrorThatNamesIt) {
  const auto make = [] {
    const rlimit low = {65536, 65536};
    setrlimit(RLIMIT_FSIZE, &low);
    const bool small = make_memory_file("small", 65536).ok();
    const Result<Fd> large = make_memory_file("large", 65537);
    if (!small || large.ok() || large.status().code() != Code::kSystemError) std::_Exit(1);
    dprintf(STDERR_FILENO, "%s", std::string(large.status().message()).c_str());
    std::_Exit(0);
  };
  EXPECT_EXIT(make(), testing::ExitedWithCode(0), "may have 65536 bytes.*raise ulimit -f");
}

}  // namespace
}  // namespace tutti
