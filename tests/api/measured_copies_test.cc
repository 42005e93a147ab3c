// Whether ranks of one host read each other's memory is what was measured among them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/single_copies.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;
using testing_support::TeamShape;

constexpr int kRanks = 3;
constexpr size_t kCount = 96 << 10;  // of 4 bytes, of each rank's block
constexpr uint64_t kLimitNs = 120'000'000'000;

/// A model in which 3 ranks, on whatever number of cores, have measured so.
class ModelFile {
 public:
  ModelFile(double staged_ns, double single_ns)
      : path_(testing::TempDir() + "measured_copies_" + std::to_string(getpid()) + ".json") {
    std::ofstream file(path_);
    file << "{\"tutti_model\": 1, \"crowds\": [";
    std::set<unsigned> all = {std::max(1U, std::thread::hardware_concurrency())};
    for (unsigned cores = 1; all.size() < 24; ++cores) all.insert(cores);
    for (const unsigned cores : all) {
      file << (cores == *all.begin() ? "" : ", ") << "{\"ranks\": " << kRanks
           << ", \"cores\": " << cores
           << ", \"step_ns\": 100, \"copies\": [{\"bytes\": 65536, \"staged_ns\": " << staged_ns
           << ", \"single_ns\": " << single_ns << "}]}";
    }
    file << "]}\n";
  }
  ~ModelFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

class Rank : testing_support::TeamRank {
 public:
  explicit Rank(Member& member) : TeamRank(member) {}

  void expect(const char* collective, const std::vector<std::string>& words) {
    char text[4096] = {};
    if (!ok(tuttiExplain(comm_, collective, kCount, tuttiFloat32, text, sizeof text, nullptr))) {
      return;
    }
    const std::string explained = text;
    for (const std::string& word : words) {
      if (explained.find(word) != std::string::npos) continue;
      member_.fail("no '" + word + "': " + explained);
    }
  }

  void gather() {
    std::vector<float> mine(kCount), all(kRanks * kCount, -1);
    for (size_t i = 0; i < kCount; ++i) mine[i] = value(member_.rank(), i);
    if (!ok(tuttiAllGather(mine.data(), all.data(), kCount, tuttiFloat32, comm_,
                           tuttiBlocking()))) {
      return;
    }
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] == value(static_cast<int>(i / kCount), i % kCount)) continue;
      return member_.fail("element " + std::to_string(i) + " is wrong");
    }
  }

  bool is_joined() { return join(); }
  void meet() { member_.meet(); }

 private:
  static float value(int rank, size_t i) {
    return static_cast<float>(static_cast<size_t>(rank) * kCount + i);
  }
};

testing_support::TeamResult run(testing_support::Environment variables,
                                const testing_support::Body& body) {
  TeamShape shape = TeamShape::processes(kRanks);
  variables["TUTTI_LOG"] = variables["TUTTI_CACHE"] = "off";
  shape.environment.assign(kRanks, variables);
  return testing_support::run_team(
      shape, body, [](uint64_t) { return std::string("measured copies"); }, kLimitNs);
}

TEST(MeasuredCopies, TheFasterWayRunsAndExplainSaysByWhichNumbers) {
  if (!testing_support::siblings_may_copy()) GTEST_SKIP() << testing_support::kNoSingleCopies;
  for (const bool reading_wins : {false, true}) {
    const ModelFile file(reading_wins ? 1e6 : 1e4, reading_wins ? 1e4 : 1e6);
    const auto result = run({{"TUTTI_TUNING", file.path()}}, [&](Member& member) {
      Rank rank(member);
      if (!rank.is_joined()) return;
      const std::string by = "by TUTTI_TUNING=" + file.path();
      rank.expect("all_gather", reading_wins
                                    ? std::vector<std::string>{", single copy, ", "copy: yes, ", by}
                                    : std::vector<std::string>{", staged, ", "copy: no, ", by});
      rank.expect("all_reduce", {", staged, "});  // folds what it gets
      rank.gather();
      rank.meet();
    });
    EXPECT_TRUE(result.ok) << result.report;
  }
}

TEST(MeasuredCopies, TheSettingComesBeforeWhatWasMeasured) {
  if (!testing_support::siblings_may_copy()) GTEST_SKIP() << testing_support::kNoSingleCopies;
  for (const bool forced : {false, true}) {
    const ModelFile file(forced ? 1e4 : 1e6, forced ? 1e6 : 1e4);
    const auto result =
        run({{"TUTTI_TUNING", file.path()}, {"TUTTI_SINGLE_COPY_BYTES", forced ? "1" : "0"}},
            [&](Member& member) {
              Rank rank(member);
              if (!rank.is_joined()) return;
              rank.expect("all_gather", {forced ? ", single copy, " : ", staged, "});
              rank.gather();
              rank.meet();
            });
    EXPECT_TRUE(result.ok) << result.report;
  }
}

// Of three ranks one is refused, and then none reads.
TEST(MeasuredCopies, ARefusedPairKeepsAllFromIt) {
  if (!testing_support::siblings_may_copy()) GTEST_SKIP() << testing_support::kNoSingleCopies;
  const ModelFile file(1e6, 1e4);
  for (const bool tuned : {false, true}) {
    testing_support::Environment variables;
    if (tuned) variables["TUTTI_TUNING"] = file.path();
    const auto result = run(variables, [](Member& member) {
      Rank rank(member);
      if (member.rank() == 2 && !testing_support::refuse_single_copies()) {
        return member.fail("seccomp: " + std::string(std::strerror(errno)));
      }
      if (!rank.is_joined()) return;
      rank.expect("all_gather", {", staged, ", "single copy: no, ", "rank 2 ("});
      rank.gather();
      rank.meet();
    });
    EXPECT_TRUE(result.ok) << result.report;
  }
}

}  // namespace
}  // namespace tutti::api_test
