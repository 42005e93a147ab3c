#include "src/select/forced.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/registry/algorithms.h"

namespace tutti::select {
namespace {

using Names = std::map<std::string, std::string>;

Forces forces(const Variables& variables) {
  const Result<Config> config = Config::from_environment(variables);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? forces_of(config.value(), registry::algorithms()) : Forces{};
}

Names forced(const Variables& variables) {
  Names names;
  for (const auto& [collective, force] : forces(variables)) names[collective] = force.algorithm;
  return names;
}

TEST(Forced, NcclsAlgorithmsForceTheirCounterparts) {
  EXPECT_EQ(forced({{"NCCL_ALGO", "Ring"}}), (Names{{"all_gather", "ring"},
                                                    {"all_reduce", "ring"},
                                                    {"broadcast", "chain"},
                                                    {"reduce_scatter", "ring"}}));
  EXPECT_EQ(forced({{"NCCL_ALGO", "NVLS,Tree,Ring"}})["all_reduce"], "double_binary_tree");
  EXPECT_EQ(forced({{"NCCL_ALGO", "allreduce:tree;AllGather:PAT"}}),
            (Names{{"all_gather", "pat"}, {"all_reduce", "double_binary_tree"}}));
  EXPECT_EQ(forced({{"NCCL_ALGO", "ring;allgather:pat;reduce:nvls;broadcast:nvls"}}),
            (Names{{"all_gather", "pat"}, {"all_reduce", "ring"}, {"reduce_scatter", "ring"}}));
  EXPECT_EQ(forced({{"NCCL_ALGO", "CollNetDirect"}}), Names{});
  EXPECT_EQ(forced({}), Names{});
}

TEST(Forced, OursWinAndDeterminismToo) {
  EXPECT_EQ(
      forced({{"NCCL_ALGO", "allreduce:ring,tree"}, {"TUTTI_ALGORITHM", "all_reduce:one_shot"}}),
      (Names{{"all_reduce", "one_shot"}}));
  EXPECT_EQ(forced({{"NCCL_ALGO", "Ring"}, {"TUTTI_DETERMINISTIC", "1"}}),
            (Names{{"all_gather", "ring"}, {"broadcast", "chain"}}));
  EXPECT_EQ(forced({{"TUTTI_ALGORITHM", "all_reduce:ring"}, {"TUTTI_DETERMINISTIC", "1"}}),
            (Names{{"all_reduce", "ring"}}));
}

TEST(Forced, SaysByWhat) {
  const Forces both = forces({{"NCCL_ALGO", "Ring"}, {"TUTTI_ALGORITHM", "all_reduce:spiral"}});
  EXPECT_EQ(both.at("all_reduce").algorithm, "spiral");
  EXPECT_EQ(both.at("all_reduce").by, "TUTTI_ALGORITHM");
  EXPECT_EQ(both.at("broadcast").by, "NCCL_ALGO");
  const std::vector<Default> files = {{"NCCL_ALGO", "Ring", "/etc/nccl.conf"}};
  const Result<Config> config = Config::from_environment({}, files);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(forces_of(config.value(), registry::algorithms()).at("broadcast").by,
            "NCCL_ALGO in /etc/nccl.conf");
}

// A name that NCCL_ALGO refuses, or that two algorithms have, could never be asked for.
TEST(Forced, NamesOfNcclAreItsOwnAndUnique) {
  std::set<std::pair<schedule::Collective, std::string_view>> taken;
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    if (algorithm.nccl_name.empty()) continue;
    const std::string collective(schedule::name_of(algorithm.collective));
    EXPECT_TRUE(taken.insert({algorithm.collective, algorithm.nccl_name}).second)
        << collective << ": " << algorithm.nccl_name << " twice";
    EXPECT_EQ(forced({{"NCCL_ALGO", std::string(algorithm.nccl_name)}})[collective],
              algorithm.name);
  }
  EXPECT_FALSE(taken.empty());
}

}  // namespace
}  // namespace tutti::select
