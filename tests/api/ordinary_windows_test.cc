// Windows on memory that is mapped nowhere else: what may happen to a peer that lives, and to a
// copy that takes long.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"
#include "tests/support/single_copies.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;
using testing_support::RankState;
using testing_support::TeamShape;

constexpr uint64_t kLimitNs = 120'000'000'000;

/// Two processes with a part each, in which a put from rank 0 to rank 1 has been done.
class Pair : testing_support::TeamRank {
 public:
  explicit Pair(Member& member) : TeamRank(member) {}

  bool open() {
    return join() && ok(tuttiCommWindowRegister(comm_, part_.data(), part_.size(), &window_, 0)) &&
           (member_.rank() != 0 || ok(put())) && member_.meet();
  }
  tuttiResult_t put() {
    const char value = 1;
    return tuttiPut(&value, 1, 1, window_, 0, tuttiBlocking());
  }
  void expect_refusal(tuttiResult_t wanted, const std::vector<std::string>& words) {
    const tuttiResult_t result = put();
    const std::string message = tuttiGetLastError(comm_);
    bool right = result == wanted;
    for (const std::string& word : words) right = right && message.find(word) != std::string::npos;
    if (!right) member_.fail("put: " + std::to_string(result) + ", " + message);
  }

 private:
  tuttiWindow_t window_ = nullptr;
  std::vector<char> part_ = std::vector<char>(64);
};

void run_two(const testing_support::Body& body) {
  TeamShape shape = TeamShape::processes(2);
  shape.environment.assign(2, {{"TUTTI_LOG", "off"}});
  const auto result = testing_support::run_team(
      shape, body, [](uint64_t) { return std::string("put"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

/// Ends it as pthread_exit() does, but without unwinding what it is in.
void end_main_thread() {
  std::signal(SIGUSR1, [](int) { syscall(SYS_exit, 0); });
  syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1);
}

// Its process lives, so no failure of the communicator would ever end the put.
TEST(OrdinaryWindows, APutToAProcessWithoutItsMainThreadIsAnError) {
  if (!testing_support::siblings_may_copy()) GTEST_SKIP() << testing_support::kNoSingleCopies;
  run_two([](Member& member) {
    Pair pair(member);
    if (!pair.open()) return;
    if (member.rank() == 1) end_main_thread();
    while (member.rank() == 0 && pair.put() == tuttiSuccess) continue;
    if (member.rank() == 0) pair.expect_refusal(tuttiRemoteError, {"rank 1 (", "main thread"});
    member.meet();
    member.board().slots[member.rank()].state.store(RankState::kDone);
    _exit(0);  // nobody is there any more who would wait for this thread
  });
}

TEST(OrdinaryWindows, WhatIsNotPermittedAnyMoreIsRefusedWithAdvice) {
  if (!testing_support::siblings_may_copy()) GTEST_SKIP() << testing_support::kNoSingleCopies;
  run_two([](Member& member) {
    Pair pair(member);
    if (!pair.open()) return;
    if (member.rank() == 0) {
      if (!testing_support::refuse_single_copies()) {
        member.fail("seccomp: " + std::string(std::strerror(errno)));
      }
      pair.expect_refusal(tuttiUnsupported, {"rank 1 (process ", "tuttiMemAlloc"});
    }
    member.meet();
  });
}

/// Asks what a call of 4 MiB would do.
class Explaining : testing_support::TeamRank {
 public:
  explicit Explaining(Member& member) : TeamRank(member) {}

  void expect(const std::vector<std::string>& words) {
    if (!join()) return;
    char text[4096] = {};
    if (!ok(tuttiExplain(comm_, "all_gather", 1 << 20, tuttiFloat32, text, sizeof text, nullptr))) {
      return;
    }
    const std::string explained = text;
    for (const std::string& word : words) {
      if (explained.find(word) == std::string::npos)
        member_.fail("no '" + word + "': " + explained);
    }
    member_.meet();
  }
};

TEST(SingleCopies, ExplainNamesThePairThatMayNotReadEachOther) {
  if (!testing_support::siblings_may_copy()) GTEST_SKIP() << testing_support::kNoSingleCopies;
  TeamShape shape = TeamShape::processes(3);
  shape.environment.assign(3, {{"TUTTI_LOG", "off"}, {"TUTTI_SINGLE_COPY_BYTES", "1"}});
  for (const bool refused : {false, true}) {
    const auto body = [refused](Member& member) {
      Explaining rank(member);
      if (!refused) return rank.expect({", single copy, "});
      if (member.rank() == 2 && !testing_support::refuse_single_copies()) {
        return member.fail("seccomp: " + std::string(std::strerror(errno)));
      }
      rank.expect({", staged, ", "without effect: ", "may not read each other's memory",
                   member.rank() == 1 ? "rank 1 (" : "rank 0 (", "rank 2 ("});
    };
    const auto result = testing_support::run_team(
        shape, body, [](uint64_t) { return std::string("explain"); }, kLimitNs);
    EXPECT_TRUE(result.ok) << result.report;
  }
}

/// Much memory of few pages.
class Repeated {
 public:
  static constexpr size_t kBytes = size_t{1} << 30;

  Repeated() {
    const int file = memfd_create("repeated", MFD_CLOEXEC);
    void* all =
        mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED || ftruncate(file, kPages) != 0) std::abort();
    data_ = static_cast<char*>(all);
    for (size_t at = 0; at < kBytes; at += kPages) {
      void* page =
          mmap(data_ + at, kPages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
      if (page == MAP_FAILED) std::abort();
    }
    close(file);
  }
  ~Repeated() { munmap(data_, kBytes); }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;

  char* data() { return data_; }

 private:
  static constexpr size_t kPages = 4 << 20;
  char* data_ = nullptr;
};

TEST(OrdinaryWindows, ALargePutEndsAtItsDeadline) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "no direct access under the thread sanitizer";
#endif
  std::atomic<bool> over{false};
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    Repeated part;
    tuttiWindow_t window = nullptr;
    EXPECT_OK(tuttiCommWindowRegister(comm, part.data(), Repeated::kBytes, &window, 0), comm);
    if (rank == 0) {
      Repeated source;
      set_deadline(comm, 1);
      EXPECT_REFUSED(tuttiPut(source.data(), Repeated::kBytes, 1, window, 0, tuttiBlocking()),
                     tuttiTimeout, comm);
      over.store(true);
    }
    while (!over.load()) std::this_thread::yield();
    tuttiCommAbort(comm);  // before the part goes
    comm = nullptr;
  });
}

}  // namespace
}  // namespace tutti::api_test
