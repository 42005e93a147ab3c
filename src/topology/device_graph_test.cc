#include "src/topology/device_graph.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/decimal_comma.h"

namespace tutti::topology {
namespace {

// Two NUMA nodes; at the first a switch with a GPU and a card of two networks, and a GPU of its
// own.
constexpr const char* kHost = R"(<system version="1">
  <cpu numaid="0" affinity="0000ffff" arch="x86_64" unheard="of">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:20:00.0" count="12" tclass="0x030200"/>
          <c2c bw="1000" count="2"/>
        </gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x020700" link_speed="8 GT/s" link_width="8">
        <nic>
          <net name="mlx5_0" dev="0" speed="200000" port="1" latency="0.5" guid="0x1"/>
          <net name="mlx5_1" dev="1" speed="200000" port="1" guid="0x2"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:20:00.0" class="0x030200" link_speed="" link_width="0">
      <gpu dev="1" sm="80" rank="1" gdr="1">
        <nvlink target="0000:11:00.0" count="12" tclass="0x030200"/>
      </gpu>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="ffff0000">
    <pci busid="0000:80:00.0" class="0x030200">
      <gpu dev="2" sm="80" rank="2" gdr="1"/>
      <pcilink target="0000:10:00.0"/>
    </pci>
    <nic>
      <net name="eth0" dev="2" speed="-1"/>
    </nic>
  </cpu>
</system>
)";

size_t named(const DeviceGraph& graph, const std::string& name) {
  for (size_t i = 0; i < graph.devices().size(); ++i) {
    if (graph.devices()[i].name == name) return i;
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

TEST(DeviceGraph, IsWrittenAsItWasRead) {
  const DeviceGraph graph = DeviceGraph::parse(kHost, "h.xml").value();
  EXPECT_EQ(graph.write(), kHost);
}

TEST(DeviceGraph, HoldsDevicesAndTheRatesOfTheirLinks) {
  const DeviceGraph graph = DeviceGraph::parse(kHost, "h.xml").value();
  EXPECT_EQ(graph.all(DeviceKind::kNuma).size(), 2u);
  EXPECT_EQ(graph.all(DeviceKind::kGpu).size(), 3u);
  EXPECT_EQ(graph.all(DeviceKind::kNet).size(), 3u);
  const HostDevice& switch_ = graph.devices()[named(graph, "0000:10:00.0")];
  EXPECT_NEAR(switch_.uplink_bytes_per_ns, 31.5, 0.1);
  EXPECT_EQ(graph.devices()[named(graph, "mlx5_0")].uplink_bytes_per_ns, 25);
  EXPECT_EQ(graph.devices()[named(graph, "eth0")].uplink_bytes_per_ns, 0);
  const HostDevice& gpu = graph.devices()[named(graph, "gpu 2")];
  EXPECT_EQ(gpu.address, "0000:80:00.0");
  EXPECT_EQ(graph.devices()[gpu.numa].processors.front(), 16u);
  EXPECT_EQ(graph.devices()[gpu.numa].processors.size(), 16u);
}

TEST(DeviceGraph, PathsAreThoseOfTheTreeAndOfDirectLinks) {
  const DeviceGraph graph = DeviceGraph::parse(kHost, "h.xml").value();
  const auto path = [&](const char* a, const char* b) {
    const std::string name(short_name(graph.path(named(graph, a), named(graph, b))));
    EXPECT_EQ(short_name(graph.path(named(graph, b), named(graph, a))), name);
    return name;
  };
  EXPECT_EQ(path("gpu 0", "gpu 0"), "LOC");
  EXPECT_EQ(path("mlx5_0", "mlx5_1"), "LOC");
  EXPECT_EQ(path("gpu 0", "gpu 1"), "NVL");
  EXPECT_EQ(path("gpu 0", "mlx5_0"), "PIX");
  EXPECT_EQ(path("gpu 1", "mlx5_1"), "PHB");
  EXPECT_EQ(path("gpu 0", "gpu 2"), "SYS");
  EXPECT_EQ(path("gpu 2", "eth0"), "PHB");
  const auto rate = [&](const char* a, const char* b) {
    return graph.path_bytes_per_ns(named(graph, a), named(graph, b));
  };
  EXPECT_EQ(rate("gpu 0", "gpu 1"), 12 * 25);
  EXPECT_NEAR(rate("gpu 0", "mlx5_0"), 7.88, 0.01);  // the card has 8 lanes of 8 GT/s
  EXPECT_EQ(rate("gpu 1", "mlx5_0"), 0);             // nobody said how fast GPU 1 is attached
}

// Two switches in a row between the GPU and the card.
TEST(DeviceGraph, ManySwitchesAreFurtherThanOne) {
  const DeviceGraph graph = DeviceGraph::parse(R"(<system version="1"><cpu numaid="-1">
    <pci busid="0000:01:00.0"><pci busid="0000:02:00.0"><pci busid="0000:03:00.0">
      <gpu dev="0" sm="90"/></pci></pci>
      <pci busid="0000:04:00.0"><nic><net name="n" dev="0"/></nic></pci></pci>
    </cpu></system>)",
                                               "h.xml")
                                .value();
  EXPECT_EQ(graph.path(named(graph, "gpu 0"), named(graph, "n")), DevicePath::kManySwitches);
}

struct BrokenHost {
  const char* was;
  const char* is;
  int line;
  const char* why;
};

constexpr BrokenHost kBrokenHosts[] = {
    {"</system>\n", "", 32, "<system> of line 1 is not closed"},
    {"</nic>", "</net>", 14, "</net> stands where <nic> of line 11 is open"},
    {"version=\"1\"", "", 1, "<system> has no 'version'"},
    {"version=\"1\"", "version=\"2\"", 1, "version='2', which is no version that Tutti reads"},
    {"<system version", "<topology version", 32, "stands where <topology>"},
    {" numaid=\"1\"", "", 23, "<cpu> has no 'numaid'"},
    {"numaid=\"1\"", "numaid=\"0\"", 23, "two <cpu> have numaid=0; the other is in line 2"},
    {"numaid=\"1\"", "numaid=\"one\"", 23, "numaid='one', which is no whole number"},
    {"\"ffff0000\"", "\"16-31\"", 23, "affinity='16-31', which is no set of processors"},
    {"\"ffff0000\"", "\"ffff8000\"", 23, "processor 15 is at two NUMA nodes"},
    {"busid=\"0000:12:00.0\"", "", 10, "<pci> has no 'busid'"},
    {"busid=\"0000:12:00.0\"", "busid=\"12:00.0\"", 10, "busid='12:00.0', which is no PCI address"},
    {"busid=\"0000:12:00.0\"", "busid=\"0000:11:00.0\"", 10, "two <pci> have busid='0000:11:00.0'"},
    {"class=\"0x020700\"", "class=\"network\"", 10, "class='network', which is no class"},
    {"\"8 GT/s\"", "\"8 GB/s\"", 10, "link_speed='8 GB/s', which is no rate like"},
    {"\"8 GT/s\"", "\"fast\"", 10, "link_speed='fast'"},
    {"link_width=\"8\"", "link_width=\"x8\"", 10, "link_width='x8', which is no whole number"},
    {"link_width=\"8\"", "link_width=\"-8\"", 10,
     "link_width='-8', which is no whole number from 0"},
    {"dev=\"1\" sm", "sm", 18, "<gpu> has no 'dev'"},
    {"dev=\"1\" sm", "dev=\"0\" sm", 18, "two <gpu> have dev=0; the other is in line 5"},
    {"sm=\"80\" rank=\"1\"", "sm=\"new\" rank=\"1\"", 18, "sm='new', which is no whole number"},
    {"rank=\"1\"", "rank=\"-1\"", 18, "rank='-1', which is no whole number from 0"},
    {"target=\"0000:11:00.0\" count", "count", 19, "<nvlink> has no 'target'"},
    {"target=\"0000:11:00.0\"", "target=\"gpu0\"", 19, "target='gpu0', which is no PCI address"},
    {"count=\"12\" tclass=\"0x030200\"/>\n      </gpu>", "count=\"4\"/>\n      </gpu>", 6,
     "gpu 0 has 12 links to gpu 1, which has 4 back"},
    {"count=\"12\"", "count=\"0\"", 6, "count='0', which is no whole number from 1"},
    {" count=\"12\"", "", 6, "<nvlink> has no 'count'"},
    {"<c2c bw=\"1000\" count=\"2\"/>", "<nvlink target=\"0000:20:00.0\" count=\"1\"/>", 7,
     "two <nvlink> of gpu 0 have target='0000:20:00.0'"},
    {"<c2c bw=\"1000\" ", "<c2c ", 7, "<c2c> has no 'bw'"},
    {"name=\"mlx5_1\" ", "", 13, "<net> has no 'name'"},
    {"name=\"mlx5_1\"", "name=\"mlx5_0\"", 13, "two <net> have name='mlx5_0' and the same port"},
    {"dev=\"1\" speed", "speed", 13, "<net> has no 'dev'"},
    {"latency=\"0.5\"", "latency=\"low\"", 12, "latency='low', which is no number"},
    {"speed=\"-1\"", "speed=\"-2\"", 29, "speed='-2', which is no whole number from -1"},
    {"port=\"1\" latency", "port=\"p\" latency", 12, "port='p', which is no whole number"},
    {"<pcilink target=\"0000:10:00.0\"/>", "<pcilink/>", 26, "<pcilink> has no 'target'"},
    {"<pcilink target=\"0000:10:00.0\"/>", "<pcilnk/>", 26, "did you mean <pcilink>?"},
    {"<pcilink target=\"0000:10:00.0\"/>", "<net/>", 26,
     "<net> stands inside <pci>, which holds no"},
    {"<c2c bw=\"1000\" count=\"2\"/>", "<gpu/>", 7,
     "<gpu> stands inside <gpu>, which holds no such"},
    {"dev=\"2\" speed", "dev=\"2\" dev=\"3\" speed", 29, "'dev' stands twice"},
};

TEST(DeviceGraph, EveryBrokenFileHasAnErrorOfItsOwnWithItsLine) {
  std::set<std::string> messages;
  for (const BrokenHost& broken : kBrokenHosts) {
    std::string text = kHost;
    const size_t at = text.find(broken.was);
    ASSERT_NE(at, std::string::npos) << broken.was;
    text.replace(at, std::string(broken.was).size(), broken.is);
    const auto made = DeviceGraph::parse(text, "h.xml");
    ASSERT_FALSE(made.ok()) << broken.is;
    const std::string message(made.status().message());
    EXPECT_EQ(message.rfind("h.xml:" + std::to_string(broken.line) + ": ", 0), 0u)
        << message << "\nfor " << broken.is;
    EXPECT_NE(message.find(broken.why), std::string::npos) << message << "\nfor " << broken.is;
    EXPECT_TRUE(messages.insert(message).second) << message;
  }
}

std::string with(const char* was, const std::string& is) {
  std::string text = kHost;
  const size_t at = text.find(was);
  EXPECT_NE(at, std::string::npos) << was;
  return text.replace(at, std::string(was).size(), is);
}

// NCCL's own dump, where it does not see where links lead: one switch, in each of its spellings.
TEST(DeviceGraph, LinksToAnUnknownEndLeadToOneSwitch) {
  for (const char* end : {"fffffff:ffff:ff", "ffff:ff:ff.f", "FFFF:FF:FF.F"}) {
    std::string text = with("target=\"0000:20:00.0\"", std::string("target=\"") + end + "\"");
    const std::string other = "target=\"0000:11:00.0\"";
    text.replace(text.find(other), other.size(), "target=\"fffffff:ffff:ff\"");
    const auto read = DeviceGraph::parse(text, "h.xml");
    ASSERT_TRUE(read.ok()) << read.status().message();
    const DeviceGraph& graph = read.value();
    EXPECT_EQ(graph.write(), text);
    EXPECT_EQ(graph.path(named(graph, "gpu 0"), named(graph, "gpu 1")), DevicePath::kDirect);
    EXPECT_EQ(graph.path(named(graph, "gpu 0"), named(graph, "gpu 2")), DevicePath::kBetweenNodes);
  }
  EXPECT_FALSE(DeviceGraph::parse(with("target=\"0000:20:00.0\"", "target=\":.\""), "h").ok());
}

TEST(DeviceGraph, AGpuThatNamesItselfHasNoLinkThere) {
  const std::string text = with("target=\"0000:20:00.0\"", "target=\"0000:11:00.0\"");
  const auto read = DeviceGraph::parse(text, "h.xml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().write(), text);
  EXPECT_EQ(read.value().direct_links().size(), 1u);  // of the other GPU
}

TEST(DeviceGraph, AWidthThatNoLinkHasIsUnknown) {
  const auto read = DeviceGraph::parse(with("link_width=\"8\"", "link_width=\"255\""), "h.xml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  const DeviceGraph& graph = read.value();
  EXPECT_EQ(graph.devices()[named(graph, "0000:12:00.0")].uplink_bytes_per_ns, 0);
}

TEST(DeviceGraph, AByteOrderMarkIsNoText) {
  const auto read = DeviceGraph::parse(std::string("\xef\xbb\xbf") + kHost, "h.xml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().write(), kHost);
}

constexpr const char* kPciOnly = R"(<system version="1">
  <cpu numaid="0" affinity="0000000f">
    <pci busid="0000:10:00.0" class="0x060400">
      <pci busid="0003:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0000:84:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
    </pci>
    <pci busid="0000:11:00.0" class="0x030000" vendor="0x10de"/>
    <pci busid="0000:12:00.0" class="0x030000" vendor="0x1a03"/>
  </cpu>
</system>
)";

// Owners of virtual machines tell NCCL no more, which finds GPUs and networks there by itself.
TEST(DeviceGraph, AFileOfPciDevicesHasGpusByTheirClass) {
  const DeviceGraph graph = DeviceGraph::parse(kPciOnly, "h.xml").value();
  EXPECT_EQ(graph.write(), kPciOnly);
  ASSERT_EQ(graph.all(DeviceKind::kGpu).size(), 2u);  // the last one is a console
  const HostDevice& gpu = graph.devices()[named(graph, "gpu 0003:00:00.0")];
  EXPECT_EQ(gpu.address, "0003:00:00.0");
  EXPECT_EQ(graph.devices()[gpu.parent].kind, DeviceKind::kPci);
  EXPECT_NE(print_devices(graph).find("gpu 0000:11:00.0"), std::string::npos);
}

TEST(DeviceGraph, ADecimalCommaOfTheProgramIsNoneOfTheFiles) {
  const testing_support::DecimalComma locale;
  if (!locale.is_set()) GTEST_SKIP() << "this C library has locales of another form";
  const auto read = DeviceGraph::parse(kHost, "h.xml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_NEAR(read.value().devices()[named(read.value(), "0000:10:00.0")].uplink_bytes_per_ns, 31.5,
              0.1);
  EXPECT_NE(print_devices(read.value()).find("31.5"), std::string::npos);
}

TEST(DeviceGraph, AFileThatIsNotThereIsNamedByItsVariable) {
  Config config;
  config.host_topology_file = "/nowhere/none.xml";
  config.origins["TUTTI_HOST_TOPOLOGY"] = "NCCL_TOPO_FILE";
  EXPECT_EQ(DeviceGraph::of_host(config).status().message(),
            "NCCL_TOPO_FILE: /nowhere/none.xml: No such file or directory");
  config.origins.clear();
  EXPECT_EQ(DeviceGraph::of_host(config).status().message().find("TUTTI_HOST_TOPOLOGY: "), 0u);
}

TEST(DeviceGraph, AnotherRootIsNoTopology) {
  const auto made = DeviceGraph::parse("<graphs version=\"1\"/>", "g.xml");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().message(),
            "g.xml:1: <graphs> is no topology of NCCL: that is a <system>");
  EXPECT_FALSE(DeviceGraph::parse("<system version=\"1\"/>", "g.xml").ok());
}

}  // namespace
}  // namespace tutti::topology
