#include "tools/cli/topo.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "perf/collectives/error.h"
#include "perf/command_line.h"
#include "src/base/host_name.h"
#include "src/base/processors.h"
#include "src/registry/settings.h"
#include "src/topology/affinity.h"
#include "src/topology/cluster_file.h"
#include "src/topology/device_graph.h"
#include "src/topology/host_tree.h"
#include "src/topology/hwloc.h"
#include "src/topology/processor_sets.h"
#include "src/topology/sysfs.h"
#include "src/topology/text_file.h"
#include "tools/cli/topo_measure.h"
#include "tools/topology/picture.h"
#include "transports/flows/opening.h"
#include "transports/verbs/card_port.h"
#include "transports/verbs/flow_shape.h"

namespace tutti::cli {
namespace {

using topology::HostTree;
using topology::Topology;

struct TopoOptions {
  std::string file;
  std::string by;
  bool json = false;
  bool processors = false;
  bool xml = false;
  bool measure = false;
  bool again = false;
  std::string svg;
  int ranks = 0;
};

template <class Value>
Value value_or_throw(Result<Value> result) {
  if (result.ok()) return std::move(result).value();
  throw perf::PerfError(std::string(result.status().message()));
}

HostTree host_by(const std::string& reader) {
  if (reader.empty()) return value_or_throw(topology::find_host_tree());
  if (reader != "hwloc" && reader != "sysfs") {
    throw perf::PerfError("--by: there is no '" + reader + "'; there are hwloc and sysfs",
                          perf::kExitUsage);
  }
  topology::HostFacts facts =
      value_or_throw(reader == "hwloc" ? topology::ask_hwloc() : topology::read_sysfs(""));
  return value_or_throw(topology::make_host_tree(std::move(facts), host_name()));
}

void print_rates(const char* what, double least, double most) {
  if (most <= 0) return;
  std::printf(", %s %.6g", what, least);
  if (least < most) std::printf("..%.6g", most);
  std::printf(" GB/s");
}

/// The shapes of RDMA and TCP links between two ranks that talk by this level.
void print_flows(const Topology& cluster, size_t level) {
  if (level <= cluster.host_level()) return;
  transport::PathRates path{.latency_ns = cluster.level(level).latency_ns};
  for (size_t inside = cluster.host_level(); inside < level; ++inside) {
    const double uplink = cluster.uplink_bytes_per_ns(inside, 0);
    if (uplink > 0 && (path.bytes_per_ns == 0 || uplink < path.bytes_per_ns)) {
      path.bytes_per_ns = uplink;
    }
  }
  if (path.latency_ns <= 0) return;
  const auto settings = value_or_throw(registry::read_settings());
  const auto shape = transports::verbs::shape_for(path, 0, 0, settings.rdma);
  const uint32_t sockets = transports::flows::flows_for(path, 0);
  std::printf("  %-10s RDMA: %s; TUTTI_TCP_FLOWS=auto: %u socket%s\n", "",
              transports::verbs::describe(shape).c_str(), sockets, sockets == 1 ? "" : "s");
}

void print_cluster(const Topology& cluster) {
  std::printf("%s: %u ranks\n", cluster.name().empty() ? "a cluster" : cluster.name().c_str(),
              cluster.leaves());
  for (size_t level = cluster.levels(); level-- > 0;) {
    const topology::LevelSpec& spec = cluster.level(level);
    const uint32_t nodes = cluster.nodes(level);
    uint32_t least = ~0u, most = 0;
    double thinnest = cluster.uplink_bytes_per_ns(level, 0), thickest = thinnest;
    for (uint32_t node = 0; node < nodes; ++node) {
      least = std::min(least, cluster.children(level, node).size());
      most = std::max(most, cluster.children(level, node).size());
      thinnest = std::min(thinnest, cluster.uplink_bytes_per_ns(level, node));
      thickest = std::max(thickest, cluster.uplink_bytes_per_ns(level, node));
    }
    const std::string inside = level == 0 ? "ranks" : "nodes of " + cluster.level(level - 1).name;
    std::printf("  %-10s %7u %s of %u%s %s", spec.name.c_str(), nodes,
                nodes == 1 ? "node " : "nodes", least,
                least == most ? "" : (".." + std::to_string(most)).c_str(), inside.c_str());
    if (spec.latency_ns > 0) std::printf(", latency %.6g us", spec.latency_ns / 1000);
    print_rates("shared", spec.shared_bytes_per_ns, spec.shared_bytes_per_ns);
    print_rates("uplink", thinnest, thickest);
    std::printf("\n");
    print_flows(cluster, level);
  }
}

// One line for each processor: its node of every level.
void print_processors(const HostTree& host) {
  std::printf("# processor");
  for (size_t level = 0; level < host.tree.levels(); ++level) {
    std::printf(" %10s", host.tree.level(level).name.c_str());
  }
  std::printf("\n");
  for (uint32_t leaf = 0; leaf < host.tree.leaves(); ++leaf) {
    std::printf("%11u", host.processors[leaf]);
    for (size_t level = 0; level < host.tree.levels(); ++level) {
      std::printf(" %10u", host.tree.node_of(level, leaf));
    }
    std::printf("\n");
  }
}

topology::DeviceGraph devices_here() {
  return value_or_throw(topology::DeviceGraph::of_host(value_or_throw(registry::read_settings())));
}

void print_places(const HostTree& host, const topology::DeviceGraph& devices, int ranks) {
  const std::vector<uint32_t> usable = own_processors().numbers;
  const auto places = value_or_throw(topology::place_ranks(host, devices, ranks, usable));
  if (usable.size() < host.processors.size()) {
    std::printf("# this process may use only processors %s (its affinity mask, or a cpuset)\n",
                topology::write_list(usable).c_str());
  }
  std::printf("# rank  gpu       network     processors\n");
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const topology::RankPlace& place = places[rank];
    std::printf("%6zu  %-8s  %-10s  %s\n", rank, place.gpu.empty() ? "-" : place.gpu.c_str(),
                place.network.empty() ? "-" : place.network.c_str(),
                topology::write_list(place.processors).c_str());
  }
}

void print_devices_of(const topology::DeviceGraph& devices, bool xml) {
  std::fputs((xml ? devices.write() : topology::print_devices(devices)).c_str(), stdout);
}

// Soft-RoCE's, too, which are not on PCI; a star for those that a rank here would use.
void print_ports() {
  const auto ports = transports::verbs::list_ports();
  if (ports.empty()) return;
  const auto settings = value_or_throw(registry::read_settings());
  const auto used = transports::verbs::choose_ports(ports, settings.rdma,
                                                    {0, transports::verbs::own_numa_node(), {}});
  for (const transports::verbs::CardPort& port : ports) {
    bool is_used = false;
    if (used.ok()) {
      for (const auto& one : used.value()) is_used = is_used || one.text() == port.text();
    }
    std::printf("RDMA port %s%s: %s, NUMA node %s\n", port.text().c_str(), is_used ? " *" : "",
                port.state.c_str(),
                port.numa_node < 0 ? "not known" : std::to_string(port.numa_node).c_str());
  }
  if (!used.ok()) std::printf("note: %s\n", std::string(used.status().message()).c_str());
}

void draw(const Topology& tree, const std::string& path) {
  const Status status = topology::write_text_file(path, topology::draw_tree(tree));
  if (!status.ok()) throw perf::PerfError(std::string(status.message()));
}

void print_host(const HostTree& host, const TopoOptions& options) {
  if (!options.svg.empty()) return draw(host.tree, options.svg);
  if (options.xml) return print_devices_of(devices_here(), true);
  if (options.ranks > 0) return print_places(host, devices_here(), options.ranks);
  if (options.json) {
    std::fputs(topology::write_cluster(host.tree).c_str(), stdout);
  } else if (options.processors) {
    print_processors(host);
  } else {
    std::fputs(topology::print_host_tree(host).c_str(), stdout);
    print_devices_of(devices_here(), false);
    const std::string file = value_or_throw(registry::read_settings()).host_topology_file;
    std::printf("found by %s, devices by %s\n", host.found_by.c_str(),
                file.empty() ? "sysfs" : file.c_str());
    print_ports();
    for (const std::string& note : host.notes) std::printf("note: %s\n", note.c_str());
  }
}

void show(const TopoOptions& options) {
  if (options.file.empty()) return print_host(host_by(options.by), options);
  if (!options.by.empty() || options.processors || options.ranks > 0) {
    throw perf::PerfError("--by, --processors and --ranks are of this host, not of a file",
                          perf::kExitUsage);
  }
  if (options.file.ends_with(".xml")) {
    return print_devices_of(value_or_throw(topology::DeviceGraph::read(options.file)), options.xml);
  }
  if (options.xml) {
    throw perf::PerfError("--xml is of devices, which a cluster file does not have",
                          perf::kExitUsage);
  }
  const Topology cluster = value_or_throw(topology::read_cluster_file(options.file));
  if (!options.svg.empty()) {
    draw(cluster, options.svg);
  } else if (options.json) {
    std::fputs(topology::write_cluster(cluster).c_str(), stdout);
  } else {
    print_cluster(cluster);
  }
}

}  // namespace

int topo_main(int argc, char** argv) {
  TopoOptions options;
  perf::CommandLine line(
      "What this host is made of, or the cluster that a file describes (docs/topology.md).",
      "tutti topo");
  line.add(
      {.names = "file",
       .value = "FILE",
       .meaning = "a cluster file, or NCCL's XML of a host (NAME.xml); without one, this host"},
      options.file);
  line.add({.names = "--by",
            .value = "READER",
            .meaning = "who is asked: hwloc or sysfs",
            .standard = "hwloc where it is there"},
           options.by);
  line.add({.names = "--json", .value = "", .meaning = "as a cluster file"}, options.json);
  line.add({.names = "--svg", .value = "PATH", .meaning = "a picture of the tree, to this file"},
           options.svg);
  line.add({.names = "--processors",
            .value = "",
            .meaning = "one line for each processor, with its node of every level"},
           options.processors);
  line.add({.names = "--xml", .value = "", .meaning = "its devices in NCCL's XML"}, options.xml);
  line.add({.names = "--ranks",
            .value = "N",
            .meaning = "which processors, GPU and network each of N ranks should use here"},
           options.ranks, 1, 1 << 16);
  line.add({.names = "--measure",
            .value = "",
            .meaning = "latency and bandwidth between every two hosts of the launched job, or of "
                       "--ranks ranks of this host; up to 16"},
           options.measure);
  line.add({.names = "--again",
            .value = "",
            .meaning = "with --measure: also where a table of the same hosts is kept"},
           options.again);
  try {
    if (const auto status = line.parse(argc, argv)) return *status;
    if (options.measure) {
      return measure_links({.ranks = std::max(options.ranks, 2), .again = options.again});
    }
    show(options);
    return 0;
  } catch (const perf::PerfError& error) {
    std::fprintf(stderr, "tutti topo: %s\n", error.what());
    return error.exit_code;
  }
}

}  // namespace tutti::cli
