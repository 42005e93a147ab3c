#include "src/comm/cluster.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace tutti::comm {
namespace {

constexpr const char* kTwoRacks = R"({"tutti_topology": 1,
  "levels": [{"name": "zone"}, {"name": "rack"}, {"name": "host"}],
  "tree": {"children": [{"children": [{"name": "a"}, {"name": "b"}]},
                        {"children": [{"name": "c"}, {"name": "d.far"}]}]}})";

/// A file that is gone with it.
class ClusterFileOf {
 public:
  explicit ClusterFileOf(const std::string& text)
      : path_(testing::TempDir() + "tutti-cluster-" + std::to_string(getpid()) + "-" +
              std::to_string(reinterpret_cast<uintptr_t>(this))) {
    std::ofstream(path_) << text;
  }
  ~ClusterFileOf() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

Config config_of(const std::string& file, const std::string& host) {
  Config config;
  config.topology_file = file;
  config.host_id = host;
  return config;
}

Cluster cluster_of(const std::string& text, const std::string& host = "a") {
  const ClusterFileOf file(text);
  return Cluster::read(config_of(file.path(), host)).value();
}

using Hosts = std::vector<std::string>;

TEST(Cluster, ItsLevelsAreThoseThatUniteHostsOfTheGroup) {
  const Cluster cluster = cluster_of(kTwoRacks);
  const Hosts hosts = {"c", "a", "b.cluster.org", "a"};
  const std::vector<uint32_t> domains = {5, 7, 3, 7};
  const std::vector<group::Level> levels = cluster.levels(hosts, domains).value().levels;
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0].name, "rack");
  EXPECT_EQ(levels[0].nodes, (std::vector<uint32_t>{1, 0, 0, 0}));
  EXPECT_TRUE(levels[0].reach.stream);
  EXPECT_FALSE(levels[0].reach.map);
  EXPECT_EQ(levels[1].name, "zone");
  EXPECT_EQ(levels[1].nodes, (std::vector<uint32_t>{0, 0, 0, 0}));
}

TEST(Cluster, ALevelThatUnitesNothingIsLeftOut) {
  const Cluster cluster = cluster_of(kTwoRacks);
  const auto names = [&](const std::vector<std::string>& hosts, std::vector<uint32_t> domains) {
    std::string text;
    const auto levels = cluster.levels(hosts, domains);
    for (const group::Level& level : levels.value().levels) text += level.name + " ";
    return text;
  };
  EXPECT_EQ(names({"a", "c"}, {0, 1}), "zone ");
  EXPECT_EQ(names({"a", "b"}, {0, 1}), "rack ");
  EXPECT_EQ(names({"a", "a"}, {0, 0}), "");
  // Ranks of a host that share no memory talk by its network.
  EXPECT_EQ(names({"a", "a", "d.far"}, {0, 1, 2}), "host zone ");
}

TEST(Cluster, LevelsHaveTheRatesOfTheFile) {
  const Cluster cluster = cluster_of(R"({"tutti_topology": 1,
    "levels": [{"name": "wan", "latency_us": 900, "port_GB_per_s": 2},
               {"name": "site", "latency_us": 20, "port_GB_per_s": 5},
               {"name": "rack", "latency_us": 7, "port_GB_per_s": 12}, {"name": "host"}],
    "tree": {"children": [{"uplink_GB_per_s": 1, "children": [{"children": [{"name": "a"}]},
                                                              {"children": [{"name": "b"}]}]},
                          {"children": [{"children": [{"name": "c"}, {"name": "d"}]}]}]}})");
  const DescribedLevels found =
      cluster.levels(Hosts{"a", "b", "c", "c"}, std::vector<uint32_t>{0, 1, 2, 2}).value();
  // No rack unites anything, so what leaves a host takes the thinner uplink of its rack, too.
  EXPECT_EQ(found.uplinks, (std::vector<double>{5, 5, 5, 5}));
  ASSERT_EQ(found.levels.size(), 2u);
  EXPECT_EQ(found.levels[0].name, "site");
  EXPECT_EQ(found.levels[0].latency_ns, 20'000);
  EXPECT_EQ(found.levels[0].uplinks, (std::vector<double>{1, 1, 2, 2}));
  EXPECT_EQ(found.levels[1].latency_ns, 900'000);
}

TEST(Cluster, FilesThatSayTheSameAgreeWhateverTheyLookLike) {
  std::string other = kTwoRacks;
  other.replace(other.find("{\"name\": \"a\"}, {\"name\": \"b\"}"), 28,
                "{\"name\": \"a\" },{\"name\":\"b\"}");
  const Cluster mine = cluster_of(kTwoRacks);
  EXPECT_TRUE(mine.agree(cluster_of(other).card(), "rank 0", "rank 1").ok());
}

TEST(Cluster, FilesThatDifferAreAnErrorThatNamesBoth) {
  std::string other = kTwoRacks;
  other.replace(other.find("\"b\""), 3, "\"x\"");
  const Cluster mine = cluster_of(kTwoRacks), peers = cluster_of(other);
  const Status status = mine.agree(peers.card(), "rank 0 on a", "rank 1 on b");
  ASSERT_FALSE(status.ok());
  const std::string message(status.message());
  for (const std::string& part :
       {std::string("rank 0 on a has TUTTI_TOPOLOGY=" + mine.card().file),
        std::string("rank 1 on b has TUTTI_TOPOLOGY=" + peers.card().file), mine.card().fingerprint,
        peers.card().fingerprint}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  const Status one = mine.agree(Cluster::read(Config{}).value().card(), "rank 0", "rank 1");
  EXPECT_NE(one.message().find("rank 1 has no TUTTI_TOPOLOGY"), std::string::npos);
}

TEST(Cluster, AHostThatTheFileDoesNotHoldIsNamed) {
  const auto levels = cluster_of(kTwoRacks).levels(Hosts{"a", "e"}, std::vector<uint32_t>{0, 1});
  ASSERT_FALSE(levels.ok());
  const std::string message(levels.status().message());
  EXPECT_NE(message.find("rank 1 is on a host with the name 'e'"), std::string::npos) << message;
  EXPECT_NE(message.find("(it has a, b, c, d.far)"), std::string::npos) << message;
}

TEST(Cluster, TwoHostsThatShareMemoryContradictTheFile) {
  const auto levels = cluster_of(kTwoRacks).levels(Hosts{"a", "b"}, std::vector<uint32_t>{4, 4});
  ASSERT_FALSE(levels.ok());
  EXPECT_NE(levels.status().message().find("ranks 0 and 1 share memory"), std::string::npos);
}

TEST(Cluster, AFileThatCannotBeUsedIsAnErrorThatNamesTheVariable) {
  const auto why = [](const std::string& text) {
    const ClusterFileOf file(text);
    const auto made = Cluster::read(config_of(file.path(), "a"));
    return made.ok() ? "" : std::string(made.status().message());
  };
  EXPECT_EQ(why("{").rfind("TUTTI_TOPOLOGY: ", 0), 0u) << why("{");
  EXPECT_NE(why(R"({"tutti_topology": 1, "levels": [{"name": "host"}], "tree": {"ranks": 4}})")
                .find("gives its hosts no names"),
            std::string::npos);
}

TEST(Cluster, CardsAreReadAsTheyWereWritten) {
  const ClusterCard card{"/tmp/x y", "12"};
  EXPECT_EQ(read_cluster_card(to_text(card)), card);
  EXPECT_EQ(read_cluster_card("nonsense"), ClusterCard{});
}

TEST(Cluster, WithoutAFileThereAreNoLevels) {
  const Cluster none = Cluster::read(Config{}).value();
  EXPECT_TRUE(none.levels(Hosts{"x", "y"}, std::vector<uint32_t>{0, 1}).value().levels.empty());
  EXPECT_TRUE(none.agree(ClusterCard{}, "rank 0", "rank 1").ok());
}

}  // namespace
}  // namespace tutti::comm
