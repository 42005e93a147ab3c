// Which port of which card a rank uses, and the sentence where it uses none.
#include "transports/verbs/card_port.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "transports/verbs/card.h"

namespace tutti::transports::verbs {
namespace {

const CardPort kNear{"mlx5_0", 1, "ACTIVE", 0};
const CardPort kNearToo{"mlx5_1", 1, "ACTIVE", 0};
const CardPort kFar{"mlx5_10", 2, "ACTIVE", 1};
const CardPort kDown{"mlx5_2", 1, "DOWN", 0};

std::string chosen(const std::vector<CardPort>& ports, const RdmaSettings& settings, int rank,
                   int node) {
  const Result<CardPort> port = choose_port(ports, settings, rank, node);
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

TEST(VerbsCards, AreReadAsTheyWereWritten) {
  VerbsCard card;
  card.endpoint = tcp::parse_endpoint("10.1.2.3", 4000).value();
  card.kind = "ipv4";
  card.host_id = std::string(1000, 'h');
  const auto read = VerbsCard::read(card.write());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->endpoint.text(), "10.1.2.3:4000");
  EXPECT_TRUE(read->reaches(card) && card.reaches(*read));
  VerbsCard other = card;
  other.fabric = "blue";
  EXPECT_FALSE(card.reaches(other));
  EXPECT_TRUE(other.reaches(*VerbsCard::read(other.write())));
  other = card;
  other.kind = "ipv6";
  EXPECT_FALSE(card.reaches(other));
}

TEST(VerbsCards, ThatReachNobodySayWhy) {
  VerbsCard none;
  none.absence = "this host has no RDMA card " + std::string(1000, '!');
  const auto read = VerbsCard::read(none.write());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->absence.find("this host has no RDMA card"), 0u);
  EXPECT_EQ(read->neighborhood(), "");
  EXPECT_FALSE(read->reaches(*read));
}

TEST(VerbsCards, NonsenseIsNone) {
  for (const char* text : {"", "tutti-verbs-1", "tutti-verbs-1 none", "tutti-verbs-1 none ",
                           "tutti-tcp-2 10.0.0.1 1 h", "tutti-verbs-1 10.0.0.1 0 ipv4 - h",
                           "tutti-verbs-1 10.0.0.1 1 ipv4 -", "tutti-verbs-1 host 1 ipv4 - h",
                           "tutti-verbs-1 10.0.0.1 70000 ipv4 - h"}) {
    EXPECT_FALSE(VerbsCard::read(text)) << text;
  }
}

}  // namespace
}  // namespace tutti::transports::verbs
