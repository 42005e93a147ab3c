#include "src/topology/cluster_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

namespace tutti::topology {
namespace {

constexpr const char* kFabric = R"({
  "tutti_topology": 1,
  "name": "three tiers",
  "levels": [
    {"name": "region", "latency_us": 30},
    {"name": "zone", "latency_us": 15, "oversubscription": 2.8},
    {"name": "rack", "latency_us": 7, "port_Gbit_per_s": 400, "oversubscription": 1},
    {"name": "host", "latency_us": 1, "port_GB_per_s": 450}
  ],
  "tree": {"children": [{"count": 8, "children": [
    {"count": 128, "children": [{"count": 16, "ranks": 8}]}]}]}
})";

TEST(ClusterFile, AFewLinesSayManyHosts) {
  const Topology fabric = parse_cluster(kFabric, "f.json").value();
  EXPECT_EQ(fabric.leaves(), 131072u);
  EXPECT_EQ(fabric.nodes(fabric.host_level()), 16384u);
  EXPECT_EQ(fabric.level(3).name, "region");
  EXPECT_EQ(fabric.level(1).latency_ns, 7000);
  EXPECT_EQ(fabric.uplink_bytes_per_ns(0, 5), 50);
  EXPECT_EQ(fabric.uplink_bytes_per_ns(1, 5), 50 * 16);
  EXPECT_NEAR(fabric.uplink_bytes_per_ns(2, 0), 50 * 16 * 128 / 2.8, 1e-6);
  const std::string text = write_cluster(fabric);
  EXPECT_LT(text.size(), 800u) << text;
  EXPECT_EQ(parse_cluster(text, "again").value(), fabric);
}

constexpr const char* kNamed = R"({
  "tutti_topology": 1,
  "levels": [
    {"name": "wan", "latency_us": 10000, "port_GB_per_s": 1.25},
    {"name": "rack", "latency_us": 2, "port_GB_per_s": 12.5},
    {"name": "host"},
    {"name": "numa"}
  ],
  "tree": {"children": [
    {"name": "east", "uplink_Gbit_per_s": 4, "children": [
      {"name": "n[08-11]", "children": [{"count": 2, "ranks": 4}]},
      {"name": "big", "children": [{"ranks": 3}, {"ranks": 5}]}]},
    {"name": "west", "children": [
      {"name": "w[1,2,4]", "children": [{"count": 2, "ranks": 4}]}]}
  ]}
})";

TEST(ClusterFile, NamesHostsWhereTheyAreReal) {
  const Topology named = parse_cluster(kNamed, "f.json").value();
  EXPECT_EQ(named.host_level(), 1u);
  EXPECT_EQ(named.nodes(1), 8u);
  EXPECT_EQ(named.leaves(), 64u);
  const uint32_t host = named.find_host("w4").value();
  EXPECT_EQ(named.describe(2, named.parent(1, host)), "rack 'west'");
  EXPECT_EQ(named.uplink_bytes_per_ns(2, 0), 0.5);
  EXPECT_EQ(named.uplink_bytes_per_ns(2, 1), 1.25);
}

TEST(ClusterFile, WhatIsWrittenIsReadAsTheSame) {
  const Topology named = parse_cluster(kNamed, "f.json").value();
  const std::string text = write_cluster(named);
  const Result<Topology> again = parse_cluster(text, "again");
  ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << text;
  EXPECT_EQ(again.value(), named) << text;
  EXPECT_EQ(write_cluster(again.value()), text);
  EXPECT_NE(text.find("n[08-11]"), std::string::npos) << text;
}

TEST(ClusterFile, AFingerprintIsOfWhatIsSaidNotOfHow) {
  const Topology named = parse_cluster(kNamed, "f.json").value();
  std::string other = kNamed;
  other.replace(other.find("w[1,2,4]"), 8, "w[1-2,4]");
  other.replace(other.find("\"uplink_Gbit_per_s\": 4"), 22, "\"uplink_GB_per_s\": 0.5  ");
  EXPECT_EQ(fingerprint(parse_cluster(other, "f").value()), fingerprint(named));
  other.replace(other.find("w[1-2,4]"), 8, "w[1-2,5]");
  EXPECT_NE(fingerprint(parse_cluster(other, "f").value()), fingerprint(named));
}

// A file that is broken in one place, where, and a part of why.
struct Broken {
  const char* was;
  const char* is;
  int line;
  const char* why;
};

constexpr Broken kBroken[] = {
    {"\"wan\",", "\"wan\"", 4, "no JSON: syntax error"},
    {"  ]}\n}", "  ]}\n", 15, "unexpected end of input"},
    {"1.25", "1e999", 4, "number overflow"},
    {"\"host\"}", "\"host\", \"name\": \"x\"}", 6, "'name' stands twice"},
    {"\"tutti_topology\": 1,", "", 1, "no cluster file"},
    {"\"tutti_topology\": 1", "\"tutti_topology\": 2", 2, "another format"},
    {"\"tutti_topology\": 1", "\"tutti_topology\": \"1\"", 2, "is a string, not a number"},
    {"\"levels\"", "\"level\"", 3, "did you mean 'levels'"},
    {"\"tree\"", "\"name\"", 9, "is an object, not a string"},
    {"\"latency_us\": 2", "\"latency_ms\": 2", 5, "did you mean 'latency_us'"},
    {"\"latency_us\": 2", "\"latency_us\": \"2 us\"", 5, "'latency_us' is a string"},
    {"\"latency_us\": 2", "\"latency_us\": -2", 5, "'latency_us' is not above 0"},
    {"\"latency_us\": 2", "\"latency_us\": 20000", 4, "less latency than level 'rack'"},
    {"{\"name\": \"numa\"}", "{\"name\": \"rack\"}", 7, "two levels with the name 'rack'"},
    {"{\"name\": \"numa\"}", "{\"name\": \"\"}", 7, "empty name"},
    {"{\"name\": \"numa\"}", "{\"latency_us\": 1}", 7, "has no 'name'"},
    {"{\"name\": \"numa\"}", "7", 7, "a level is a number, not an object"},
    {"{\"name\": \"host\"}", "{\"name\": \"box\"}", 4, "no level has the name 'host'"},
    {"12.5}", "12.5, \"port_Gbit_per_s\": 100}", 5, "say the same"},
    {"12.5}", "12.5, \"oversubscription\": 2}", 4, "are said twice"},
    {"\"numa\"}", "\"numa\", \"oversubscription\": 2}", 7, "its ports have no rate"},
    {"1.25}", "1.25, \"oversubscription\": 2}", 4, "is the outermost"},
    {"{\"children\": [\n", "{\"uplink_GB_per_s\": 1, \"children\": [\n", 9, "nothing is above"},
    {"{\"children\": [\n", "{\"count\": 2, \"children\": [\n", 9, "has 2 nodes; it has one"},
    {"[{\"ranks\": 3}, {\"ranks\": 5}]", "[]", 12, "has no children"},
    {"[{\"ranks\": 3}, {\"ranks\": 5}]", "[{\"children\": [{}]}]", 12, "no level is below"},
    {"\"big\",", "\"big\", \"ranks\": 2,", 12, "says how many ranks"},
    {"\"big\"", "\"n[08-11]\"", 12, "two hosts have the name 'n08', also in line 11"},
    {"\"big\"", "\"n[08-11\"", 12, "'[' is not closed"},
    {"\"big\"", "\"n[11-08]\"", 12, "runs backwards"},
    {"\"name\": \"big\", ", "", 12, "some hosts have names and some have none"},
    {"\"big\",", "\"big\", \"count\": 2,", 12, "has 1 names and a count of 2"},
    {"\"west\",", "\"west[1-2]\",", 14, "two hosts have the name 'w1': a node that holds it"},
    {"\"ranks\": 3", "\"ranks\": 0", 12, "'ranks' is no whole number from 1"},
    {"\"ranks\": 3", "\"ranks\": 2.5", 12, "'ranks' is no whole number from 1"},
    {"\"ranks\": 3", "\"ranks\": 4194304", 12, "more than 4194304 leaves"},
    {"\"ranks\": 3", "\"rank\": 3", 12, "did you mean 'ranks'"},
};

TEST(ClusterFile, EveryBrokenFileHasAnErrorOfItsOwnWithItsLine) {
  std::set<std::string> messages;
  for (const Broken& broken : kBroken) {
    std::string text = kNamed;
    const size_t at = text.find(broken.was);
    ASSERT_NE(at, std::string::npos) << broken.was;
    text.replace(at, std::string(broken.was).size(), broken.is);
    const Result<Topology> made = parse_cluster(text, "f.json");
    ASSERT_FALSE(made.ok()) << broken.is;
    const std::string message(made.status().message());
    EXPECT_EQ(message.rfind("f.json:" + std::to_string(broken.line) + ": ", 0), 0u) << message;
    EXPECT_NE(message.find(broken.why), std::string::npos) << message << "\n" << broken.why;
    EXPECT_TRUE(messages.insert(message).second || broken.is == std::string("\"ranks\": 2.5"))
        << message;
  }
}

TEST(ClusterFile, AFileThatIsNotThereIsNamed) {
  const Result<Topology> made = read_cluster_file("/nowhere/f.json");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::kSystemError);
  EXPECT_NE(made.status().message().find("/nowhere/f.json"), std::string::npos);
  EXPECT_NE(read_cluster_file("/").status().message().find("no regular file"), std::string::npos);
}

TEST(ClusterFile, DeepAndEmptyTextsAreRefused) {
  const auto why = [](const std::string& text) {
    return std::string(parse_cluster(text, "f").status().message());
  };
  EXPECT_NE(why(std::string(100000, '[')).find("more than 64 deep"), std::string::npos);
  EXPECT_NE(why("").find("unexpected end of input"), std::string::npos);
  EXPECT_NE(why("[]").find("the file is an array"), std::string::npos);
  EXPECT_NE(why("\xff\xfe").find("no JSON"), std::string::npos);
}

}  // namespace
}  // namespace tutti::topology
