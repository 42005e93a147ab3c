// The memory of communicators that nobody uses stays small: jobs make hundreds of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/sanitizer.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;

constexpr int kRanks = 4;
constexpr uint64_t kCommunicators = 12;
constexpr uint64_t kMostKib = 256;  // of a rank for each

/// Of this process; memory that it shares counts by its part.
uint64_t resident_kib() {
  std::ifstream file("/proc/self/smaps_rollup");
  uint64_t kib = 0;
  for (std::string word; file >> word;) {
    if (word == "Pss:") file >> kib;
  }
  return kib;
}

class Rank : testing_support::TeamRank {
 public:
  explicit Rank(Member& member) : TeamRank(member) {}

  void run() {
    if (!join() || !ok(testing_support::sum(comm_, 1))) return;
    member_.meet();
    const uint64_t before_kib = resident_kib();
    member_.meet();
    std::vector<tuttiComm_t> idle(kCommunicators, nullptr);
    for (tuttiComm_t& made : idle) {
      if (!ok(tuttiCommSplit(comm_, 0, member_.rank(), &made, nullptr))) return;
    }
    member_.meet();
    check("made", before_kib);
    for (tuttiComm_t made : idle) {
      if (!ok(tuttiBarrier(made, tuttiBlocking()))) return;
    }
    member_.meet();
    check("used for a barrier", before_kib);
    member_.meet();
    for (tuttiComm_t made : idle) ok(tuttiCommDestroy(made));
    ok(tuttiCommDestroy(comm_));
  }

 private:
  void check(const std::string& what, uint64_t before_kib) {
    const uint64_t now_kib = resident_kib();
    if (before_kib == 0 || now_kib == 0) return member_.fail("no /proc/self/smaps_rollup");
    const uint64_t each_kib = (now_kib - std::min(now_kib, before_kib)) / kCommunicators;
    if (each_kib < kMostKib) return;
    member_.fail("a communicator that was " + what + " takes " + std::to_string(each_kib) + " KiB");
  }
};

TEST(IdleMemory, OfACommunicatorIsLessThanAQuarterOfAMebibyteARank) {
  if (testing_support::kSanitized) GTEST_SKIP() << "a sanitizer's own memory counts";
  constexpr uint64_t kLimitNs = 120'000'000'000;
  const auto result = testing_support::run_team(
      testing_support::TeamShape::processes(kRanks), [](Member& member) { Rank(member).run(); },
      [](uint64_t) { return std::string("idle communicators"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

}  // namespace
}  // namespace tutti::api_test
