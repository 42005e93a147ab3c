// Targets for files that describe hosts and clusters.
#include <string>

#include "src/topology/cluster_file.h"
#include "src/topology/device_graph.h"
#include "src/topology/hwloc.h"
#include "tests/fuzz/targets.h"
#include "tools/topology/link_table.h"
#include "tools/topology/picture.h"

namespace tutti::fuzz {
namespace {

// Inputs that ask for many nodes cost time and show nothing more.
constexpr uint32_t kMostLeavesWritten = 4096;

bool refused(const Status& status) {
  require(!status.message().empty(), "a refusal says why");
  return false;
}

}  // namespace

bool run_cluster_file(Bytes input) {
  const auto made = topology::parse_cluster(as_text(input), "fuzz");
  if (!made.ok()) return refused(made.status());
  if (made.value().leaves() > kMostLeavesWritten) return true;
  const std::string text = topology::write_cluster(made.value());
  const auto again = topology::parse_cluster(text, "again");
  require(again.ok(), "a written cluster is read again");
  require(topology::write_cluster(again.value()) == text, "it is written as it was");
  require(!topology::draw_tree(made.value()).empty(), "it has a picture");
  return true;
}

std::vector<std::string> corpus_cluster_file() {
  return {
      R"({"tutti_topology": 1, "name": "x",
          "levels": [{"name": "rack", "latency_us": 2, "shared_GB_per_s": 9},
                     {"name": "host", "port_Gbit_per_s": 8, "oversubscription": 2}],
          "tree": {"children": [{"name": "n[08-10,12]", "ranks": 2}, {"name": "a"}]}})",
      R"({"tutti_topology": 1, "levels": [{"name": "a"}, {"name": "host"}],
          "tree": {"children": [{"count": 3, "uplink_GB_per_s": 1}, {"count": 2}]}})",
  };
}

bool run_devices(Bytes input) {
  const auto made = topology::DeviceGraph::parse(as_text(input), "fuzz");
  if (!made.ok()) return refused(made.status());
  const std::string text = made.value().write();
  const auto again = topology::DeviceGraph::parse(text, "again");
  require(again.ok() && again.value().write() == text, "written devices are read as they were");
  require(!topology::print_devices(made.value()).empty(), "they are printed");
  return true;
}

std::vector<std::string> corpus_devices() {
  return {
      R"(<system version="1"><cpu numaid="0" affinity="0000ffff,00000001" arch="x&amp;y">
         <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
         <pci busid="0000:02:00.0"><gpu dev="0" sm="90" rank="0" gdr="1">
         <nvlink target="0000:03:00.0" count="2" tclass="0x1"/><c2c bw="1" count="1"/></gpu></pci>
         <pci busid="0000:03:00.0"><gpu dev="1">
         <nvlink target="0000:02:00.0" count="2"/></gpu></pci>
         <pcilink target="0000:09:00.0"/></pci>
         <nic><net name="n" dev="0" speed="100" port="1" latency="0.5"/></nic></cpu></system>)",
  };
}

bool run_hwloc(Bytes input) {
  const auto facts = topology::read_hwloc(as_text(input));
  if (!facts.ok()) return refused(facts.status());
  const auto made = topology::make_host_tree(facts.value(), "fuzz");
  if (!made.ok()) return refused(made.status());
  require(!topology::print_host_tree(made.value()).empty(), "a tree is printed");
  return true;
}

std::vector<std::string> corpus_hwloc() {
  return {
      R"(<topology version="2.0"><object type="Machine" cpuset="0x3">
         <object type="NUMANode" cpuset="0x3" local_memory="1024"/><object type="L3Cache"
         cpuset="0x3" cache_size="10"><object type="Core" cpuset="0x1">
         <object type="PU" cpuset="0x1"/></object><object type="Core" cpuset="0x2">
         <object type="PU" cpuset="0x2"/></object></object></object></topology>)",
  };
}

bool run_links(Bytes input) {
  const auto made = topology::parse_links(as_text(input), "fuzz");
  if (!made.ok()) return refused(made.status());
  require(!topology::print_links(made.value()).empty(), "a table is printed");
  return true;
}

std::vector<std::string> corpus_links() {
  return {topology::write_links({{"a", "b"}, {{0, 1}, {1, 0}}, {{0, 2}, {2, 0}}})};
}

}  // namespace tutti::fuzz
