#include "perf/collectives/versus_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "perf/collectives/error.h"
#include "perf/collectives/rounds.h"

namespace tutti::perf {
namespace {

void add_round(std::vector<Round>& rounds, const char* configuration, size_t number,
               std::pair<double, double> us) {
  Round round{configuration, "free-running", 2, "all_reduce", 8, number, kTuttiVariant, us.first};
  rounds.push_back(round);
  round.variant = kMpiVariant;
  round.us = us.second;
  rounds.push_back(round);
}

TEST(VersusTable, RatiosPairTheTimesOfOneRound) {
  std::vector<Round> rounds;
  add_round(rounds, "ompi", 0, {1, 2});
  add_round(rounds, "ompi", 1, {10, 30});  // a slow moment of the machine: both suffer
  add_round(rounds, "ompi", 2, {1, 4});
  const auto sizes = compare(rounds);
  ASSERT_EQ(sizes.size(), 1u);
  EXPECT_EQ(sizes[0].best().ratios, (std::vector<double>{2, 3, 4}));
  EXPECT_EQ(sizes[0].best().median_ratio, 3);
}

TEST(VersusTable, BestIsTheLowestMedianRatioNotTheLowestTime) {
  std::vector<Round> rounds;
  add_round(rounds, "faster-on-a-quiet-machine", 0, {1, 3});
  add_round(rounds, "better-ratio", 0, {4, 8});
  EXPECT_EQ(compare(rounds)[0].best().configuration, "better-ratio");
}

TEST(VersusTable, AHalfRoundIsLeftOut) {
  std::vector<Round> rounds;
  add_round(rounds, "ompi", 0, {1, 2});
  add_round(rounds, "ompi", 1, {1, 2});
  rounds.pop_back();
  EXPECT_EQ(compare(rounds)[0].best().ratios.size(), 1u);
  rounds.erase(rounds.begin());
  EXPECT_TRUE(compare(rounds).empty());
}

TEST(VersusTable, SizesAndModesStayApart) {
  std::vector<Round> rounds;
  add_round(rounds, "ompi", 0, {1, 2});
  add_round(rounds, "ompi", 0, {1, 2});
  rounds[2].bytes = rounds[3].bytes = 64;
  add_round(rounds, "ompi", 0, {1, 2});
  rounds[4].mode = rounds[5].mode = "stepped";
  const auto sizes = compare(rounds);
  ASSERT_EQ(sizes.size(), 3u);
  EXPECT_EQ(sizes[0].bytes, 8u);
  EXPECT_EQ(sizes[1].bytes, 64u);
  EXPECT_EQ(sizes[2].mode, "stepped");
}

TEST(Rounds, WhatIsWrittenIsRead) {
  const std::string path = testing::TempDir() + "rounds." + std::to_string(getpid()) + ".csv";
  std::vector<Round> rounds;
  add_round(rounds, "ompi-nocma:tuned", 3, {0.125, 2});
  write_rounds(path, rounds);
  const std::vector<Round> read = read_rounds(path);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].configuration, "ompi-nocma:tuned");
  EXPECT_EQ(read[0].mode, "free-running");
  EXPECT_EQ(read[0].ranks, 2);
  EXPECT_EQ(read[0].round, 3u);
  EXPECT_EQ(read[0].us, 0.125);
  EXPECT_EQ(read[1].variant, kMpiVariant);
  std::remove(path.c_str());
}

TEST(Rounds, BrokenFilesAreRefusedWithTheirLine) {
  const std::string path = testing::TempDir() + "broken." + std::to_string(getpid()) + ".csv";
  write_rounds(path, {});
  std::ofstream(path, std::ios::app) << "ompi,stepped,two,all_reduce,8,0,mpi,1\n";
  try {
    read_rounds(path);
    FAIL();
  } catch (const PerfError& error) {
    EXPECT_NE(std::string(error.what()).find(path + ":2"), std::string::npos) << error.what();
  }
  EXPECT_THROW(read_rounds(path + ".missing"), PerfError);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace tutti::perf
