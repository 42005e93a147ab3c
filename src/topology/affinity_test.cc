#include "src/topology/affinity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "src/topology/processor_sets.h"
#include "src/topology/sysfs_devices.h"

namespace tutti::topology {
namespace {

namespace fs = std::filesystem;

const std::vector<uint32_t> kAll = {0, 1, 2, 3, 4, 5, 6, 7};

HostTree host_of(uint32_t processors) {
  HostFacts facts;
  for (uint32_t i = 0; i < processors; ++i) facts.processors.push_back(i);
  for (uint32_t numa = 0; numa < 2; ++numa) {
    HostObject object{"numa", {}, 0};
    for (uint32_t i = 0; i < processors / 2; ++i) {
      object.processors.push_back(numa * processors / 2 + i);
    }
    facts.objects.push_back(object);
  }
  return make_host_tree(facts, "h").value();
}

constexpr const char* kFourGpus = R"(<system version="1">
  <cpu numaid="0" affinity="0000000f">
    <pci busid="0000:01:00.0">
      <pci busid="0000:02:00.0"><gpu dev="0"/></pci>
      <pci busid="0000:03:00.0"><nic><net name="n0" dev="0"/></nic></pci></pci>
    <pci busid="0000:04:00.0">
      <pci busid="0000:05:00.0"><gpu dev="1"/></pci>
      <pci busid="0000:06:00.0"><nic><net name="n1" dev="1"/></nic></pci></pci>
  </cpu>
  <cpu numaid="1" affinity="000000f0">
    <pci busid="0000:07:00.0"><gpu dev="2"/></pci>
    <pci busid="0000:08:00.0"><gpu dev="3"/></pci>
    <pci busid="0000:09:00.0"><nic><net name="n2" dev="2"/><net name="n3" dev="3"/></nic></pci>
  </cpu></system>)";

std::string text_of(const RankPlace& place) {
  return write_list(place.processors) + " " + place.gpu + " " + place.network;
}

TEST(Affinity, RanksWithGpusAreNearThemAndTheirNetworks) {
  const DeviceGraph devices = DeviceGraph::parse(kFourGpus, "h.xml").value();
  const std::vector<RankPlace> places = place_ranks(host_of(8), devices, 4, kAll).value();
  EXPECT_EQ(text_of(places[0]), "0-1 gpu 0 n0");
  EXPECT_EQ(text_of(places[1]), "2-3 gpu 1 n1");
  EXPECT_EQ(text_of(places[2]), "4-5 gpu 2 n2");
  EXPECT_EQ(text_of(places[3]), "6-7 gpu 3 n3");  // as near as n2, which rank 2 has
}

TEST(Affinity, TheNearestNetworksOfADeviceAreNamed) {
  using Names = std::vector<std::string>;
  const DeviceGraph devices = DeviceGraph::parse(kFourGpus, "h.xml").value();
  EXPECT_EQ(nearest_networks(devices, "0000:02:00.0"), Names{"n0"});
  EXPECT_EQ(nearest_networks(devices, "0000:05:00.0"), Names{"n1"});
  EXPECT_EQ(nearest_networks(devices, "0000:08:00.0"), (Names{"n2", "n3"}));
  EXPECT_EQ(nearest_networks(devices, "0000:ff:00.0"), Names{});
  EXPECT_EQ(nearest_networks(devices, ""), Names{});
}

TEST(Affinity, MoreRanksThanGpusShareTheProcessors) {
  const DeviceGraph devices = DeviceGraph::parse(kFourGpus, "h.xml").value();
  const std::vector<RankPlace> places = place_ranks(host_of(8), devices, 5, kAll).value();
  EXPECT_EQ(text_of(places[0]), "0  n0");
  EXPECT_EQ(text_of(places[4]), "6-7  n3");
  const std::vector<RankPlace> crowd = place_ranks(host_of(8), devices, 20, kAll).value();
  for (const RankPlace& place : crowd) EXPECT_EQ(place.processors.size(), 1u);
  EXPECT_FALSE(place_ranks(host_of(8), devices, 0, kAll).ok());
}

// As a cpuset or an affinity mask leaves them.
TEST(Affinity, RanksGetOnlyProcessorsThatMayBeUsed) {
  const DeviceGraph devices = DeviceGraph::parse(kFourGpus, "h.xml").value();
  const std::vector<uint32_t> some = {1, 5};
  for (const int ranks : {1, 2, 4, 5}) {
    std::vector<uint32_t> used;
    const std::vector<RankPlace> found = place_ranks(host_of(8), devices, ranks, some).value();
    for (const RankPlace& place : found) {
      ASSERT_EQ(place.processors.size(), 1u) << ranks;
      used.push_back(place.processors.front());
    }
    for (const uint32_t number : used) EXPECT_TRUE(number == 1 || number == 5) << number;
  }
  const std::vector<RankPlace> places = place_ranks(host_of(8), devices, 4, some).value();
  EXPECT_EQ(text_of(places[1]), "1 gpu 1 n1");
  EXPECT_EQ(text_of(places[2]), "5 gpu 2 n2");
  const std::vector<uint32_t> unknown = {64};
  EXPECT_EQ(place_ranks(host_of(8), devices, 5, unknown).value()[3].processors, unknown);
}

/// Files as Linux has them: what is at bus/pci/devices and class/net are links into devices.
class PciFiles {
 public:
  PciFiles() : root_(testing::TempDir() + "tutti-pci-" + std::to_string(getpid())) {
    write("devices/system/node/online", "0-1");
    write("devices/system/node/node0/cpulist", "0-3");
    write("devices/system/node/node1/cpulist", "4-7");
  }
  ~PciFiles() { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    const fs::path path = root_ + "/sys/" + name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  void add(const std::string& path, const std::string& kind, const std::string& numa) const {
    write("devices/" + path + "/class", kind);
    write("devices/" + path + "/numa_node", numa);
    write("devices/" + path + "/max_link_speed", "16.0 GT/s PCIe");
    write("devices/" + path + "/max_link_width", "16");
    link("devices/" + path, "bus/pci/devices/" + fs::path(path).filename().string());
  }
  void link(const std::string& to, const std::string& from) const {
    const fs::path path = root_ + "/sys/" + from;
    fs::create_directories(path.parent_path());
    fs::create_symlink(root_ + "/sys/" + to, path);
  }
  const std::string& root() const { return root_; }

 private:
  const std::string root_;
};

TEST(SysfsDevices, SwitchesGpusAndNetworksStandInTheTree) {
  const PciFiles files;
  const std::string port = "pci0000:80/0000:80:01.0";
  const std::string down = port + "/0000:81:00.0/0000:82:00.0", gpu = down + "/0000:83:00.0";
  const std::string other = port + "/0000:81:00.0/0000:82:01.0", card = other + "/0000:84:00.0";
  files.add(port, "0x060400", "1");
  files.add(port + "/0000:81:00.0", "0x060400", "1");
  files.add(down, "0x060400", "1");
  files.add(gpu, "0x030200", "1");
  files.add(other, "0x060400", "1");
  files.add(card, "0x020700", "1");
  files.write("devices/" + card + "/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  files.link("devices/" + card + "/infiniband/mlx5_0", "class/infiniband/mlx5_0");
  files.link("devices/" + card, "devices/" + card + "/infiniband/mlx5_0/device");
  files.add("pci0000:00/0000:00:03.0", "0x020000", "-1");  // a card of a virtual machine
  files.write("devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/speed", "-1");
  files.link("devices/pci0000:00/0000:00:03.0/virtio0/net/eth0", "class/net/eth0");
  files.link("devices/pci0000:00/0000:00:03.0/virtio0",
             "devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/device");
  files.write("devices/virtual/net/lo/speed", "-1");
  files.link("devices/virtual/net/lo", "class/net/lo");
  files.add("pci0000:00/0000:00:04.0", "0x020000", "0");  // a card without a driver
  const DeviceGraph found = read_sysfs_devices(files.root()).value();
  const std::string net = R"(port="1" latency="0" guid="0x0" maxconn="65536" gdr="0"/>)";
  const std::string link = R"( link_speed="16.0 GT/s PCIe" link_width="16")";
  EXPECT_EQ(found.write(), R"(<system version="1">
  <cpu numaid="0" affinity="0000000f">
    <pci busid="0000:00:03.0" class="0x020000")" +
                               link + R"(>
      <nic>
        <net name="eth0" dev="0" speed="-1" )" +
                               net + R"(
      </nic>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="000000f0">
    <pci busid="0000:81:00.0" class="0x060400")" +
                               link + R"(>
      <pci busid="0000:83:00.0" class="0x030200")" +
                               link + R"(/>
      <pci busid="0000:84:00.0" class="0x020700")" +
                               link + R"(>
        <nic>
          <net name="mlx5_0" dev="1" speed="400000" )" +
                               net + R"(
        </nic>
      </pci>
    </pci>
  </cpu>
</system>
)");
}

TEST(SysfsDevices, AFileThatNamesNoNetworksGetsThoseOfTheHost) {
  const PciFiles files;
  files.add("pci0000:00/0000:84:00.0", "0x020700", "0");
  files.write("devices/pci0000:00/0000:84:00.0/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X)");
  files.link("devices/pci0000:00/0000:84:00.0/infiniband/mlx5_0", "class/infiniband/mlx5_0");
  files.link("devices/pci0000:00/0000:84:00.0",
             "devices/pci0000:00/0000:84:00.0/infiniband/mlx5_0/device");
  XmlElement system = parse_xml(R"(<system version="1"><cpu numaid="0" affinity="0000000f">
      <pci busid="0000:10:00.0"><pci busid="0000:84:00.0"/>
      <pci busid="0003:00:00.0" class="0x030200"/></pci></cpu></system>)")
                          .value();
  complete_networks(system, files.root());
  const DeviceGraph graph = DeviceGraph::make(std::move(system)).value();
  const std::vector<RankPlace> places = place_ranks(host_of(8), graph, 1, kAll).value();
  EXPECT_EQ(text_of(places[0]), "0-3 gpu 0003:00:00.0 mlx5_0");
}

TEST(SysfsDevices, AHostWithoutNumaNodesHasOneOfAllProcessors) {
  const PciFiles files;
  fs::remove_all(files.root() + "/sys/devices/system/node");
  files.write("devices/system/cpu/online", "0-1");
  EXPECT_EQ(read_sysfs_devices(files.root()).value().write(),
            "<system version=\"1\">\n  <cpu numaid=\"-1\" affinity=\"00000003\"/>\n</system>\n");
}

}  // namespace
}  // namespace tutti::topology
