#include "perf/collectives/options.h"

#include <gtest/gtest.h>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

using Sizes = std::vector<size_t>;

std::optional<PerfOptions> parse(std::vector<const char*> flags, const char* name = "all_reduce") {
  flags.insert(flags.begin(), name);
  int exit_code = 0;
  return parse_options(*find_collective(name), static_cast<int>(flags.size()), flags.data(),
                       &exit_code);
}

TEST(Options, SizesHaveUnits) {
  EXPECT_EQ(parse_bytes("8"), 8u);
  EXPECT_EQ(parse_bytes("2K"), 2048u);
  EXPECT_EQ(parse_bytes("1.5G"), 1610612736u);
  for (const char* text : {"", "K", "1T", "-1", "nan", "8x", "1e30"}) {
    EXPECT_THROW(parse_bytes(text), PerfError) << text;
  }
}

TEST(Options, TheSweepMultipliesAddsOrIsGiven) {
  EXPECT_EQ(parse({"-b", "8", "-e", "64", "-f", "2"})->byte_sizes(), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(parse({"-b", "8", "-e", "20", "-i", "6"})->byte_sizes(), (Sizes{8, 14, 20}));
  EXPECT_EQ(parse({"-b", "1", "-e", "3", "-f", "1.1"})->byte_sizes(), (Sizes{1, 2, 3}));
  EXPECT_EQ(parse({"-b", "1K"})->byte_sizes(), Sizes{1024});
  EXPECT_EQ(parse({"--bytes-list", "4M,8"})->byte_sizes(), (Sizes{4 << 20, 8}));
  EXPECT_EQ(parse({"--bytes-list", "4M,8"})->largest_bytes(), size_t{4} << 20);
  EXPECT_EQ(parse({})->byte_sizes(), Sizes{32 << 20});
  EXPECT_EQ(parse({"-b", "8"}, "barrier")->byte_sizes(), Sizes{0});
}

TEST(Options, NonsenseIsRefused) {
  EXPECT_FALSE(parse({"-b", "8", "-e", "4"}));
  EXPECT_FALSE(parse({"-b", "0", "-e", "4", "-f", "2"}));
  EXPECT_FALSE(parse({"-b", "1", "-e", "4", "-i", "0"}));
  EXPECT_FALSE(parse({"-d", "complex"}));
  EXPECT_FALSE(parse({"--ranks", "0"}));
  EXPECT_FALSE(parse({"-r", "2"}));
  EXPECT_FALSE(parse({"--stream", "cuda"}));
  EXPECT_FALSE(parse({"-t", "1000"}));
}

TEST(Options, RanksAreProcessesTimesThreads) {
  EXPECT_EQ(parse({})->crew.processes, 2);
  EXPECT_EQ(parse({"-t", "2", "-g", "3"})->crew.processes, 1);
  EXPECT_EQ(parse({"-t", "2", "-g", "3"})->crew.ranks(), 6);
  EXPECT_EQ(parse({"--np", "4", "-t", "2"})->crew.ranks(), 8);
  EXPECT_EQ(parse({"-r", "all"})->root, -1);
}

TEST(Collectives, AreFoundByEveryNameOfTheirs) {
  for (const char* name : {"all_to_all", "alltoall", "alltoall_perf", "all_to_all_perf"}) {
    ASSERT_NE(find_collective(name), nullptr) << name;
    EXPECT_EQ(find_collective(name)->id, Collective::kAllToAll);
  }
  EXPECT_EQ(find_collective("allreduce")->id, Collective::kAllReduce);
  EXPECT_EQ(find_collective("hypercube"), nullptr);
}

TEST(Collectives, BandwidthRulesAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllToAll, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kBroadcast, 8), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kSendRecv, 8), 1);
}

}  // namespace
}  // namespace tutti::perf
