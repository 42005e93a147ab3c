// Which port of which card a rank uses, and the sentence where it uses none.
#include "transports/verbs/card_port.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tutti::transports::verbs {
namespace {

const CardPort kNear{"mlx5_0", 1, "ACTIVE", 0};
const CardPort kNearToo{"mlx5_1", 1, "ACTIVE", 0};
const CardPort kFar{"mlx5_10", 2, "ACTIVE", 1};
const CardPort kDown{"mlx5_2", 1, "DOWN", 0};

std::string chosen(const std::vector<CardPort>& ports, const RdmaSettings& settings, int rank,
                   int node) {
  const Result<CardPort> port = choose_port(ports, settings, {rank, node, {}});
  if (port.ok()) return port.value().text();
  EXPECT_EQ(port.status().code(), Code::kUnsupported);
  return std::string(port.status().message());
}

TEST(VerbsPorts, ARankHasANearOneAndNeighboursTakeTurns) {
  const std::vector<CardPort> ports{kNear, kNearToo, kFar, kDown};
  EXPECT_EQ(chosen(ports, {}, 0, 0), "mlx5_0:1");
  EXPECT_EQ(chosen(ports, {}, 1, 0), "mlx5_1:1");
  EXPECT_EQ(chosen(ports, {}, 2, 0), "mlx5_0:1");
  EXPECT_EQ(chosen(ports, {}, 0, 1), "mlx5_10:2");
  EXPECT_EQ(chosen({kNear}, {}, 5, 1), "mlx5_0:1") << "a far one is better than none";
  EXPECT_EQ(chosen({kNear, kFar}, {}, 1, -1), "mlx5_10:2");
}

TEST(VerbsPorts, SeveralCarryARanksMessagesWhereTheyAreNear) {
  const std::vector<CardPort> ports{kNear, kNearToo, kFar, kDown};
  RdmaSettings settings;
  settings.rails = 2;
  const auto texts = [&](const CardSeat& seat) {
    std::string all;
    const auto chosen = choose_ports(ports, settings, seat);
    EXPECT_TRUE(chosen.ok());
    for (const CardPort& port : chosen.value()) all += port.text() + " ";
    return all;
  };
  EXPECT_EQ(texts({0, 0, {}}), "mlx5_0:1 mlx5_1:1 ");
  EXPECT_EQ(texts({1, 0, {}}), "mlx5_0:1 mlx5_1:1 ") << "in one order on all ranks";
  EXPECT_EQ(texts({0, 1, {}}), "mlx5_10:2 ") << "there are no two on that node";
  EXPECT_EQ(texts({1, -1, {}}), "mlx5_1:1 mlx5_10:2 ");
  settings.rails = 4;
  EXPECT_EQ(texts({0, -1, {}}), "mlx5_0:1 mlx5_1:1 mlx5_10:2 ");
}

TEST(VerbsPorts, TheCardThatIsNearestToTheDeviceCountsMoreThanTheNode) {
  const std::vector<CardPort> ports{kNear, kNearToo, kFar, kDown};
  const auto first = [&](std::vector<std::string> near, const RdmaSettings& settings) {
    return choose_port(ports, settings, {0, 0, std::move(near)}).value().text();
  };
  EXPECT_EQ(first({"mlx5_1"}, {}), "mlx5_1:1");
  EXPECT_EQ(first({"mlx5_10"}, {}), "mlx5_10:2");
  EXPECT_EQ(first({"mlx5_2"}, {}), "mlx5_0:1") << "it is down";
  RdmaSettings said;
  said.devices = "=mlx5_0";
  EXPECT_EQ(first({"mlx5_1"}, said), "mlx5_0:1") << "the setting overrides";
}

TEST(VerbsPorts, WhereThereIsNoneOneSentenceSaysWhy) {
  EXPECT_NE(chosen({}, {}, 0, 0).find("this host has no RDMA card"), std::string::npos);
  EXPECT_NE(chosen({kDown}, {}, 0, 0).find("is active: mlx5_2:1 (DOWN)"), std::string::npos);
  RdmaSettings other;
  other.devices = "bnxt";
  EXPECT_NE(chosen({kNear}, other, 0, 0).find("TUTTI_RDMA_DEVICES=bnxt"), std::string::npos);
  RdmaSettings off;
  off.allowed = false;
  EXPECT_NE(chosen({kNear}, off, 0, 0).find("NCCL_IB_DISABLE"), std::string::npos);
}

TEST(VerbsPorts, ListsOfDevicesAreAsNcclHasThem) {
  for (const char* list : {"", "mlx5_0", "mlx5", "=mlx5_0", "mlx5_0:1", "x,mlx5_0", "^mlx4", "^"}) {
    EXPECT_TRUE(takes(list, kNear)) << list;
  }
  for (const char* list : {"mlx5_1", "=mlx5", "mlx5_0:2", "^mlx5_0", "^=mlx5_0", "^mlx5_0:1"}) {
    EXPECT_FALSE(takes(list, kNear)) << list;
  }
  EXPECT_TRUE(takes("mlx5_1", kFar)) << "a prefix";
  EXPECT_FALSE(takes("=mlx5_1", kFar));
}

TEST(VerbsPorts, AreReadFromTheKernelsFolder) {
  std::string folder = (std::filesystem::temp_directory_path() / "tutti-ports-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto write = [&](const std::string& file, const char* line) {
    const std::filesystem::path place = std::filesystem::path(folder) / file;
    std::filesystem::create_directories(place.parent_path());
    std::ofstream(place) << line << "\n";
  };
  write("rxe1/ports/1/state", "1: DOWN");
  write("rxe0/ports/1/state", "4: ACTIVE");
  write("rxe0/ports/1/gid_attrs/types/3", "RoCE v2");
  write("rxe0/device/numa_node", "1");
  const std::vector<CardPort> ports = list_ports(folder);
  ASSERT_EQ(ports.size(), 2u);
  EXPECT_EQ(ports[0].text(), "rxe0:1");
  EXPECT_TRUE(ports[0].active());
  EXPECT_EQ(ports[0].numa_node, 1);
  EXPECT_FALSE(ports[1].active());
  EXPECT_EQ(ports[1].numa_node, -1);
  EXPECT_TRUE(is_roce_2(folder, ports[0], 3));
  EXPECT_FALSE(is_roce_2(folder, ports[0], 0));
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(list_ports(folder).empty());
}

}  // namespace
}  // namespace tutti::transports::verbs
