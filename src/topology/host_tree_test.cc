#include "src/topology/host_tree.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "src/topology/hwloc.h"
#include "src/topology/processor_sets.h"
#include "src/topology/sysfs.h"
#include "src/topology/xml_element.h"

namespace tutti::topology {
namespace {

using Numbers = std::vector<uint32_t>;

TEST(ProcessorSets, ListsAreReadAsTheyAreWritten) {
  EXPECT_EQ(read_list("0-3,8\n"), (Numbers{0, 1, 2, 3, 8}));
  EXPECT_EQ(read_list(" \n"), Numbers{});
  EXPECT_EQ(write_list({0, 1, 2, 3, 8}), "0-3,8");
  for (const char* text : {"3-1", "a", "1,", "0-4294967295", "70000"}) {
    EXPECT_FALSE(read_list(text).has_value()) << text;
  }
}

TEST(ProcessorSets, MasksAreReadAsTheyAreWritten) {
  EXPECT_EQ(read_mask("00000001,,80000003"), (Numbers{0, 1, 31, 64}));
  EXPECT_EQ(read_mask("0x3"), (Numbers{0, 1}));
  EXPECT_EQ(write_mask({0, 1, 31, 64}), "00000001,00000000,80000003");
  EXPECT_EQ(write_mask({}), "00000000");
  for (const char* text : {"", "g", "123456789", "0x", "-1", "1, 2"}) {
    EXPECT_FALSE(read_mask(text).has_value()) << text;
  }
}

// Two packages of two NUMA nodes of two cores of two threads, numbered as Linux likes to: threads
// of a core are 8 apart. Every package has one L3.
HostFacts two_packages() {
  HostFacts facts;
  facts.found_by = "a test";
  for (uint32_t i = 0; i < 16; ++i) facts.processors.push_back(i);
  for (uint32_t core = 0; core < 8; ++core) {
    facts.objects.push_back({"core", {core, core + 8}, 0});
    facts.objects.push_back({"L1", {core, core + 8}, 32 << 10});
  }
  for (uint32_t numa = 0; numa < 4; ++numa) {
    const uint32_t a = 2 * numa;
    facts.objects.push_back({"numa", {a, a + 1, a + 8, a + 9}, uint64_t{64} << 30});
  }
  for (uint32_t package = 0; package < 2; ++package) {
    const uint32_t a = 4 * package;
    facts.objects.push_back(
        {"L3", {a, a + 1, a + 2, a + 3, a + 8, a + 9, a + 10, a + 11}, 32 << 20});
    facts.objects.push_back({"package", {a, a + 1, a + 2, a + 3, a + 8, a + 9, a + 10, a + 11}, 0});
  }
  return facts;
}

TEST(HostTree, IsATreeOfWhatReadersFind) {
  const HostTree host = make_host_tree(two_packages(), "alpha").value();
  std::string levels;
  for (size_t level = 0; level < host.tree.levels(); ++level) {
    levels += host.tree.level(level).name + ":" + std::to_string(host.tree.nodes(level)) + " ";
  }
  EXPECT_EQ(levels, "core:8 L1:8 numa:4 L3:2 package:2 host:1 ");
  EXPECT_EQ(host.processors, (Numbers{0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15}));
  EXPECT_EQ(host.bytes[2], (std::vector<uint64_t>(4, uint64_t{64} << 30)));
  EXPECT_EQ(host.tree.find_host("alpha"), 0u);
  const std::string text = print_host_tree(host);
  EXPECT_NE(text.find("package 1 + L3 1 (32MB)"), std::string::npos) << text;
  EXPECT_NE(text.find("numa 3 (64GB)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("L1 7 (32KB) + core 7, processors 7 15\n"), std::string::npos) << text;
}

TEST(HostTree, ALevelThatCutsThroughAnotherIsLeftOutWithANote) {
  HostFacts facts = two_packages();
  facts.objects.push_back({"die", {0, 8, 4, 12}, 0});  // half a numa node of either package
  const HostTree host = make_host_tree(facts, "alpha").value();
  EXPECT_EQ(host.tree.levels(), 6u);
  ASSERT_EQ(host.notes.size(), 1u);
  EXPECT_NE(host.notes[0].find("left out"), std::string::npos) << host.notes[0];
}

TEST(HostTree, AProcessorInTwoObjectsOfALevelIsAContradiction) {
  HostFacts facts = two_packages();
  facts.objects.push_back({"L3", {0}, 0});
  const HostTree host = make_host_tree(facts, "alpha").value();
  EXPECT_EQ(host.tree.levels(), 5u);
  ASSERT_EQ(host.notes.size(), 1u);
  EXPECT_EQ(host.notes[0], "left out L3: two of them have the same processor");
}

// HBM beside the memory of each package, and an expander of the whole host.
TEST(HostTree, MemoryMayBeNearTheSameProcessorsAsOtherMemory) {
  HostFacts facts;
  facts.processors = {0, 1, 2, 3};
  facts.objects = {{"numa", {0, 1, 2, 3}, 256},
                   {"numa", {0, 1}, 64},
                   {"numa", {2, 3}, 64},
                   {"numa", {0, 1}, 16},
                   {"numa", {2, 3}, 16}};
  const HostTree host = make_host_tree(facts, "h").value();
  ASSERT_EQ(host.tree.levels(), 2u);
  EXPECT_EQ(host.tree.level(0).name, "numa");
  EXPECT_EQ(host.tree.nodes(0), 2u);
  EXPECT_EQ(host.bytes[0], (std::vector<uint64_t>{80, 80}));
  ASSERT_EQ(host.notes.size(), 1u);
  EXPECT_EQ(host.notes[0], "numa: 1 is near processors that have nearer ones");
}

TEST(HostTree, ProcessorsWithoutMemoryOfTheirOwnShareWhatIsThere) {
  HostFacts facts;
  facts.processors = {0, 1, 2, 3};
  facts.objects = {{"numa", {0, 1, 2, 3}, 256}, {"numa", {2, 3}, 64}};
  const HostTree host = make_host_tree(facts, "h").value();
  EXPECT_EQ(host.tree.nodes(0), 2u);
  EXPECT_EQ(host.bytes[0], (std::vector<uint64_t>{256, 64}));
}

TEST(HostTree, AProcessorThatIsNamedTwiceIsOne) {
  HostFacts facts;
  facts.processors = {1, 0, 1};
  facts.objects = {{"core", {0}, 0}, {"core", {1}, 0}};
  EXPECT_EQ(make_host_tree(facts, "alpha").value().processors, (Numbers{0, 1}));
}

TEST(HostTree, WithoutProcessorsThereIsNone) {
  EXPECT_FALSE(make_host_tree(HostFacts{}, "alpha").ok());
}

/// A folder with files as Linux has them, gone with it.
class SystemFiles {
 public:
  SystemFiles() : root_(testing::TempDir() + "tutti-sysfs-" + std::to_string(getpid())) {}
  ~SystemFiles() { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_ + "/sys/devices/system/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  const std::string& root() const { return root_; }

 private:
  const std::string root_;
};

TEST(Sysfs, ReadsCoresCachesPackagesAndMemory) {
  const SystemFiles files;
  files.write("cpu/online", "0-3");
  files.write("node/online", "0-1");
  files.write("node/node0/cpulist", "0-3");
  files.write("node/node0/meminfo", "Node 0 MemTotal:       16384 kB");
  files.write("node/node1/cpulist", "");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string folder = "cpu/cpu" + std::to_string(cpu) + "/";
    const std::string pair = cpu < 2 ? "0-1" : "2-3";
    files.write(folder + "topology/thread_siblings_list", pair);  // what old kernels have
    files.write(folder + "topology/package_cpus_list", "0-3");
    files.write(folder + "cache/index0/level", "1");
    files.write(folder + "cache/index0/type", "Data");
    files.write(folder + "cache/index0/size", "48K");
    files.write(folder + "cache/index0/shared_cpu_list", pair);
    files.write(folder + "cache/index1/level", "1");
    files.write(folder + "cache/index1/type", "Instruction");
    files.write(folder + "cache/index1/size", "32K");
    files.write(folder + "cache/index1/shared_cpu_list", pair);
    files.write(folder + "cache/index2/level", "2");
    files.write(folder + "cache/index2/type", "Unified");
    files.write(folder + "cache/index2/size", "2M");
    files.write(folder + "cache/index2/shared_cpu_list", "0-3");
  }
  const HostTree host = make_host_tree(read_sysfs(files.root()).value(), "h").value();
  EXPECT_EQ(print_host_tree(host),
            "host 'h' + package 0 + numa 0 (16MB) + L2 0 (2048KB)\n"
            "  L1 0 (48KB) + core 0, processors 0 1\n"
            "  L1 1 (48KB) + core 1, processors 2 3\n");
  EXPECT_EQ(host.notes, (std::vector<std::string>{"NUMA node 1 is near no processor"}));
}

TEST(Sysfs, WithoutFilesThereIsAnErrorThatNamesOne) {
  const auto none = read_sysfs("/nowhere");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("/nowhere/sys/devices/system/cpu/online"),
            std::string::npos);
}

constexpr const char* kHwloc = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="HostTree" os_index="0" cpuset="0x00000003">
    <info name="Backend" value="Linux"/>
    <object type="NUMANode" os_index="0" cpuset="0x00000003" local_memory="1073741824"/>
    <object type="Package" cpuset="0x00000003">
      <object type="L2Cache" cpuset="0x00000003" cache_size="1048576">
        <object type="Core" cpuset="0x00000001"><object type="PU" cpuset="0x00000001"/></object>
        <object type="Core" cpuset="0x00000002"><object type="PU" cpuset="0x00000002"/></object>
      </object>
    </object>
  </object>
</topology>)";

TEST(Hwloc, ItsXmlSaysTheSameAsTheFilesOfTheSystem) {
  const HostTree host = make_host_tree(read_hwloc(kHwloc).value(), "h").value();
  EXPECT_EQ(print_host_tree(host),
            "host 'h' + package 0 + numa 0 (1024MB) + L2 0 (1024KB)\n"
            "  core 0, processor 0\n"
            "  core 1, processor 1\n");
}

TEST(Hwloc, RefusesWhatIsNoneOfItsTexts) {
  const auto why = [](std::string was, const std::string& is) {
    std::string text = kHwloc;
    text.replace(text.find(was), was.size(), is);
    const auto facts = read_hwloc(text);
    return facts.ok() ? "" : std::string(facts.status().message());
  };
  EXPECT_EQ(why("version=\"2.0\"", "version=\"1.11\"").rfind("line 3: ", 0), 0u);
  EXPECT_EQ(why("type=\"L2Cache\" cpuset=\"0x00000003\"", "type=\"L2Cache\""),
            "line 8: an object of type L2Cache has no set of processors");
  EXPECT_EQ(why("type=\"Package\"", ""), "line 7: an object has no type");
}

TEST(Xml, BrokenTextsAreRefusedWithTheirLine) {
  const auto why = [](const char* text) {
    const auto parsed = parse_xml(text);
    return parsed.ok() ? "" : std::string(parsed.status().message());
  };
  EXPECT_EQ(why(""), "line 1: there is no element");
  EXPECT_EQ(why("<a>\n<b></a>"), "line 2: </a> stands where <b> of line 2 is open");
  EXPECT_EQ(why("<a>\n"), "line 2: <a> of line 1 is not closed");
  EXPECT_EQ(why("<a/>\n<b/>"), "line 2: there is a second element beside the first");
  EXPECT_EQ(why("<a b='1' b='2'/>"), "line 1: 'b' stands twice");
  EXPECT_EQ(why("<a b=1/>"), "line 1: the value of 'b' is not in quotes");
  EXPECT_EQ(why("<a b/>"), "line 1: 'b' has no value");
  EXPECT_EQ(why("<a b='&x;'/>"), "line 1: the value of 'b' has a '<', or a '&' of no known entity");
  EXPECT_EQ(why("<a b='1/>"), "line 1: the value of 'b' is not closed");
  EXPECT_EQ(why("<a>\nx</a>"), "line 2: text stands where only elements do");
  EXPECT_EQ(why("<a><!-- </a>"), "line 1: a comment is not closed");
  EXPECT_EQ(why("<a"), "line 1: <a> has no '>'");
  EXPECT_EQ(why("< a/>"), "line 1: '<' without the name of an element");
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "<a>";
  EXPECT_EQ(why(deep.c_str()), "line 1: elements lie more than 64 deep");
}

TEST(Xml, EscapesAreReadAsTheyAreWritten) {
  const std::string value = "a<b>&\"'c";
  const XmlElement made = parse_xml("<x v=\"" + escape_xml(value) + "\" w='&#65;&#x42;'/>").value();
  EXPECT_EQ(*made.find("v"), value);
  EXPECT_EQ(*made.find("w"), "AB");
}

}  // namespace
}  // namespace tutti::topology
