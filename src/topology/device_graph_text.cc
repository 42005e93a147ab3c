// How devices are printed, for people: a card is not told apart from its PCI device.

#include <fmt/format.h>

#include <algorithm>

#include "src/topology/device_graph.h"
#include "src/topology/processor_sets.h"

namespace tutti::topology {
namespace {

size_t depth_of(const DeviceGraph& graph, size_t device) {
  size_t depth = 0;
  for (; graph.devices()[device].parent != device; device = graph.devices()[device].parent) {
    if (graph.devices()[device].kind != DeviceKind::kNic) ++depth;
  }
  return depth;
}

std::string line_of(const DeviceGraph& graph, size_t number) {
  const HostDevice& device = graph.devices()[number];
  std::string line = std::string(2 * depth_of(graph, number), ' ') + device.name;
  if (device.kind == DeviceKind::kNuma && !device.processors.empty()) {
    line += ", processors " + write_list(device.processors);
  }
  if (device.uplink_bytes_per_ns > 0) {
    line += fmt::format(" ({:.4g} GB/s)", device.uplink_bytes_per_ns);
  }
  for (const DirectLink& link : graph.direct_links()) {
    if (link.gpu == number) line += fmt::format(", {} NVLinks to {}", link.count, link.target);
  }
  return line + "\n";
}

}  // namespace

std::string print_devices(const DeviceGraph& graph) {
  std::string text;
  for (size_t i = 0; i < graph.devices().size(); ++i) {
    if (graph.devices()[i].kind != DeviceKind::kNic) text += line_of(graph, i);
  }
  const std::vector<size_t> gpus = graph.all(DeviceKind::kGpu);
  if (gpus.empty()) return text;
  std::vector<size_t> columns = gpus;
  for (const size_t network : graph.all(DeviceKind::kNet)) columns.push_back(network);
  const auto width = [&](size_t device, size_t least) {
    return std::max(graph.devices()[device].name.size(), least);
  };
  size_t first = 10;
  for (const size_t gpu : gpus) first = width(gpu, first);
  text += fmt::format("{:{}}", "", first);
  for (const size_t column : columns) {
    text += fmt::format(" {:>{}}", graph.devices()[column].name, width(column, 8));
  }
  text += "\n";
  for (const size_t gpu : gpus) {
    text += fmt::format("{:{}}", graph.devices()[gpu].name, first);
    for (const size_t column : columns) {
      text += fmt::format(" {:>{}}", short_name(graph.path(gpu, column)), width(column, 8));
    }
    text += "\n";
  }
  return text;
}

}  // namespace tutti::topology
