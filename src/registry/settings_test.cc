#include "src/registry/settings.h"

#include <gtest/gtest.h>

#include <string>

#include "src/registry/algorithms.h"
#include "src/registry/transports.h"

namespace tutti::registry {
namespace {

std::string refusal(const Variables& variables, std::span<const Default> defaults = {}) {
  const Result<Config> config = read_settings(variables, defaults);
  if (config.ok()) return "";
  EXPECT_EQ(config.status().code(), Code::kInvalidArgument);
  return std::string(config.status().message());
}

TEST(Settings, TransportsThatDoNotExistAreRefusedWithThoseThatDo) {
  EXPECT_EQ(refusal({{"TUTTI_TRANSPORTS", "shm,tpc"}}),
            "TUTTI_TRANSPORTS: there is no transport 'tpc'; did you mean 'tcp'? There are "
            "loopback, shm, ucx, verbs, flows, tcp");
  EXPECT_NE(refusal({{"TUTTI_TRANSPORTS", "SHM"}}).find("did you mean 'shm'?"), std::string::npos);
  EXPECT_EQ(refusal({{"TUTTI_TRANSPORTS", "tcp, loopback,shm"}}), "");
  const Default file{"TUTTI_TRANSPORTS", "ib", "/etc/nccl.conf"};
  EXPECT_EQ(refusal({}, {&file, 1}).find("TUTTI_TRANSPORTS in /etc/nccl.conf: there is no"), 0u);
}

TEST(Settings, TheTableNamesEveryTransport) {
  for (const Setting& setting : settings()) {
    if (setting.name != "TUTTI_TRANSPORTS") continue;
    for (const TransportEntry& entry : transports()) {
      EXPECT_NE(setting.accepts.find(entry.name), std::string_view::npos) << entry.name;
    }
  }
}

TEST(Settings, AlgorithmsThatDoNotExistAreRefusedWithThoseThatDo) {
  const std::string spiral = refusal({{"TUTTI_ALGORITHM", "broadcast:chain,all_reduce:rings"}});
  EXPECT_EQ(spiral.find("TUTTI_ALGORITHM: there is no all_reduce algorithm 'rings'; did you mean "
                        "'ring'? There are one_shot, "),
            0u)
      << spiral;
  const std::string allreduce = refusal({{"TUTTI_ALGORITHM", "allreduce:ring"}});
  EXPECT_EQ(allreduce.find("TUTTI_ALGORITHM: there is no collective 'allreduce'; did you mean "
                           "'all_reduce'? There are all_reduce, "),
            0u)
      << allreduce;
  // Of another collective.
  EXPECT_NE(refusal({{"TUTTI_ALGORITHM", "all_reduce:chain"}}).find("no all_reduce algorithm"),
            std::string::npos);
  EXPECT_NE(refusal({{"TUTTI_ALGORITHM", "send:ring"}}).find("no collective 'send'"),
            std::string::npos);
}

TEST(Settings, EveryAlgorithmIsAcceptedAsWellAsItsLanes) {
  for (const schedule::Algorithm& algorithm : algorithms()) {
    const std::string collective(schedule::name_of(algorithm.collective));
    const std::string name(algorithm.name), most = std::to_string(algorithm.max_lanes);
    for (const char* between : {":", "/"}) {
      std::string value = collective + between;
      value += name;
      EXPECT_EQ(refusal({{"TUTTI_ALGORITHM", value}}), "");
      EXPECT_EQ(refusal({{"TUTTI_ALGORITHM", value + ":" + most}}), "");
      const std::string more = std::to_string(algorithm.max_lanes + 1);
      EXPECT_NE(refusal({{"TUTTI_ALGORITHM", value + ":" + more}}).find("at most " + most),
                std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tutti::registry
