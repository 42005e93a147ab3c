// An all_to_all_v over two levels brings what the flat one brings, for random counts with zeros,
// between processes on hosts of their own.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;

constexpr int kRounds = 12;

/// counts[a * ranks + b]: from a to b, equal on all ranks. A third of them are zeros; in some
/// rounds all of a rank's are.
std::vector<size_t> draw_counts(int ranks, int round) {
  std::mt19937 random(static_cast<uint32_t>(round));
  std::vector<size_t> counts(static_cast<size_t>(ranks * ranks));
  for (size_t& count : counts) count = random() % 3 == 0 ? 0 : random() % 3000;
  const size_t silent = random() % static_cast<size_t>(ranks);
  for (size_t b = 0; round % 3 == 0 && b < static_cast<size_t>(ranks); ++b) {
    counts[silent * static_cast<size_t>(ranks) + b] = 0;
  }
  return counts;
}

uint32_t word_of(int source, int target, size_t i) {
  return static_cast<uint32_t>(source) << 24 | static_cast<uint32_t>(target) << 16 |
         static_cast<uint32_t>(i);
}

class LevelsOfCounts : public testing_support::TeamRank {
 public:
  using TeamRank::TeamRank;

  void run() {
    if (!join()) return;
    for (int round = 0; round < kRounds; ++round) {
      member_.at(static_cast<uint64_t>(round));
      for (const char* algorithm : {"hierarchical", "pairwise"}) {
        if (!exchange(round, algorithm)) return;
      }
    }
    ok(tuttiCommDestroy(comm_));
  }

 private:
  bool exchange(int round, const char* algorithm) {
    const int ranks = member_.ranks(), rank = member_.rank();
    const std::vector<size_t> counts = draw_counts(ranks, round);
    std::vector<size_t> sent, received;
    std::vector<uint32_t> send, expected;
    for (int peer = 0; peer < ranks; ++peer) {
      sent.push_back(counts[static_cast<size_t>(rank * ranks + peer)]);
      received.push_back(counts[static_cast<size_t>(peer * ranks + rank)]);
      for (size_t i = 0; i < sent.back(); ++i) send.push_back(word_of(rank, peer, i));
      for (size_t i = 0; i < received.back(); ++i) expected.push_back(word_of(peer, rank, i));
    }
    std::vector<uint32_t> recv(expected.size(), 0xffffffff);
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = tuttiCollAllToAllV;
    call.send = send.data();
    call.recv = recv.data();
    call.send_counts = sent.data();
    call.recv_counts = received.data();
    call.type = tuttiUint32;
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.algorithm = algorithm;
    if (!ok(tuttiSubmit(&call, comm_, tuttiBlocking(), &options, nullptr))) return false;
    if (recv == expected) return true;
    member_.fail(std::string(algorithm) + " brought wrong words in round " + std::to_string(round));
    return false;
  }
};

void run_hosts(int hosts, int ranks_of_host) {
  auto shape = testing_support::TeamShape::processes(hosts * ranks_of_host);
  for (int process = 0; process < hosts * ranks_of_host; ++process) {
    shape.environment.resize(static_cast<size_t>(hosts * ranks_of_host));
    shape.environment[static_cast<size_t>(process)]["TUTTI_HOST_ID"] =
        "host" + std::to_string(process / ranks_of_host);
  }
  const auto result = testing_support::run_team(
      shape, [](Member& member) { LevelsOfCounts(member).run(); },
      [](uint64_t round) { return "round " + std::to_string(round); }, 120'000'000'000);
  EXPECT_TRUE(result.ok) << result.report;
}

TEST(LevelsOfCounts, OnTwoHostsOfTwo) { run_hosts(2, 2); }
TEST(LevelsOfCounts, OnThreeHostsOfTwo) { run_hosts(3, 2); }
TEST(LevelsOfCounts, OnTwoHostsOfThree) { run_hosts(2, 3); }
TEST(LevelsOfCounts, OnTwoHostsOfFour) { run_hosts(2, 4); }
TEST(LevelsOfCounts, OnFourHostsOfTwo) { run_hosts(4, 2); }

}  // namespace
}  // namespace tutti::api_test
