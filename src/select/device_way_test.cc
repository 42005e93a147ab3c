#include "src/select/device_way.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::select {
namespace {

// Two GPUs at one NUMA node, joined by NVLink; a third one there without, and a fourth at another.
constexpr const char* kHost = R"(<system version="1">
  <cpu numaid="0" affinity="f">
    <pci busid="0000:11:00.0" class="0x030200">
      <gpu dev="0" sm="90"> <nvlink target="0000:12:00.0" count="18" tclass="0x030200"/> </gpu>
    </pci>
    <pci busid="0000:12:00.0" class="0x030200">
      <gpu dev="1" sm="90"> <nvlink target="0000:11:00.0" count="18" tclass="0x030200"/> </gpu>
    </pci>
    <pci busid="0000:13:00.0" class="0x030200"> <gpu dev="2" sm="90"/> </pci>
  </cpu>
  <cpu numaid="1" affinity="f0">
    <pci busid="0000:80:00.0" class="0x030200"> <gpu dev="3" sm="90"/> </pci>
  </cpu>
</system>)";

DeviceWay way(std::vector<std::string> addresses, bool knows_links = true, bool are_apart = false) {
  const Result<topology::DeviceGraph> graph = topology::DeviceGraph::parse(kHost, "f");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return longest_way(graph.value(), addresses, knows_links, are_apart);
}

TEST(LongestWay, IsThatOfTheWorstPair) {
  EXPECT_EQ(way({"0000:11:00.0", "0000:12:00.0"}), DeviceWay::kDirect);
  EXPECT_EQ(way({"0000:11:00.0", "0000:12:00.0", "0000:13:00.0"}), DeviceWay::kBus);
  EXPECT_EQ(way({"0000:11:00.0", "0000:13:00.0", "0000:80:00.0"}), DeviceWay::kBetweenNodes);
  EXPECT_EQ(way({"0000:13:00.0", "0000:13:00.0"}), DeviceWay::kDirect) << "one device";
}

TEST(LongestWay, WhatNobodyKnowsIsDirect) {
  EXPECT_EQ(way({"0000:77:00.0", ""}), DeviceWay::kDirect);
  EXPECT_EQ(way({"0000:11:00.0", "0000:80:00.0"}, false), DeviceWay::kDirect)
      << "a host's own files do not know of NVLinks";
}

TEST(LongestWay, DevicesThatDoNotReachEachOtherGoByTheBus) {
  EXPECT_EQ(way({"0000:11:00.0", "0000:13:00.0"}, false, true), DeviceWay::kBus);
  EXPECT_EQ(way({"0000:11:00.0", "0000:80:00.0"}, false, true), DeviceWay::kBetweenNodes);
  EXPECT_EQ(way({"", ""}, false, true), DeviceWay::kBus);
}

}  // namespace
}  // namespace tutti::select
