// A program that runs without its standard streams, as daemons may: the numbers 0 to 2 stay the
// program's, whatever the library opens.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;
using testing_support::Network;

class Rank : testing_support::TeamRank {
 public:
  explicit Rank(Member& member) : TeamRank(member) {}

  void run() {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(fd);
    if (!are_free("before") || !join() || !are_free("with a communicator")) return;
    tuttiComm_t half = nullptr;
    if (!ok(tuttiCommSplit(comm_, member_.rank() % 2, 0, &half, nullptr))) return;
    if (!are_free("with a split") || !ok(testing_support::sum(comm_, 100'000))) return;
    void* memory = nullptr;
    tuttiWindow_t window = nullptr;
    if (!ok(tuttiMemAlloc(&memory, 4096)) ||
        !ok(tuttiCommWindowRegister(comm_, memory, 4096, &window, 0)) ||
        !are_free("with a window")) {
      return;
    }
    (void)(ok(tuttiCommDestroy(half)) && ok(tuttiCommDestroy(comm_)) && ok(tuttiMemFree(memory)));
  }

 private:
  bool are_free(const std::string& when) {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) continue;
      member_.fail(when + " the number " + std::to_string(fd) + " is taken");
      return false;
    }
    return true;
  }
};

void run_without_streams(Network network) {
  constexpr uint64_t kLimitNs = 60'000'000'000;
  const auto result = testing_support::run_team(
      testing_support::TeamShape::of(4, false, network), [](Member& member) { Rank(member).run(); },
      [](uint64_t) { return std::string("without standard streams"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

TEST(StandardStreams, AreNotTakenOnOneHost) { run_without_streams(Network::kDefault); }
TEST(StandardStreams, AreNotTakenBetweenHosts) { run_without_streams(Network::kMixed); }

}  // namespace
}  // namespace tutti::api_test
