// A limit of descriptors below which a communicator fits and a second one does not: no rank waits
// for ever, and each is told what is missing. With the slow tests: the process where the ranks meet
// waits a while for descriptors to come free.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

#include "tests/support/few_descriptors.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;

class Rank : testing_support::TeamRank {
 public:
  explicit Rank(Member& member) : TeamRank(member) {}

  void run() {
    constexpr rlim_t kFitsOne = 64;
    const rlimit limit = {kFitsOne, kFitsOne};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return member_.fail("setrlimit");
    if (!join()) return;
    tuttiComm_t made = nullptr;
    const tuttiResult_t result = tuttiCommSplit(comm_, 0, member_.rank(), &made, nullptr);
    const std::string said = tuttiGetLastError(comm_);
    if (result == tuttiSuccess || made != nullptr) return member_.fail("it was made");
    const bool names_cause = said.find("Too many open files") != std::string::npos &&
                             said.find("ulimit -n") != std::string::npos;
    const bool names_rank = said.find("gave up while ranks connected") != std::string::npos;
    if (!names_cause && !names_rank) member_.fail("neither descriptors nor a rank: " + said);
    member_.meet();
    tuttiCommAbort(comm_);
  }
};

TEST(SlowFewDescriptors, ASplitThatDoesNotFitFailsOnEveryRank) {
  if (testing_support::kSanitizerNeedsDescriptors) GTEST_SKIP() << "the sanitizer needs some, too";
  constexpr uint64_t kLimitNs = 120'000'000'000;
  const auto result = testing_support::run_team(
      testing_support::TeamShape::processes(8), [](Member& member) { Rank(member).run(); },
      [](uint64_t) { return std::string("a split without descriptors"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

}  // namespace
}  // namespace tutti::api_test
