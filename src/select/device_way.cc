#include "src/select/device_way.h"

#include <algorithm>
#include <optional>

namespace tutti::select {
namespace {

using topology::DeviceGraph;
using topology::DevicePath;

/// The device itself, or the GPU in it.
std::optional<size_t> find(const DeviceGraph& graph, const std::string& address) {
  std::optional<size_t> found;
  for (size_t i = 0; i < graph.devices().size(); ++i) {
    const topology::HostDevice& one = graph.devices()[i];
    if (one.address != address) continue;
    if (!found || one.kind == topology::DeviceKind::kGpu) found = i;
  }
  return found;
}

DeviceWay way_of(DevicePath path) {
  if (path == DevicePath::kSame || path == DevicePath::kDirect) return DeviceWay::kDirect;
  return path == DevicePath::kBetweenNodes ? DeviceWay::kBetweenNodes : DeviceWay::kBus;
}

}  // namespace

DeviceWay longest_way(const DeviceGraph& graph, std::span<const std::string> addresses,
                      bool knows_links, bool are_apart) {
  if (!knows_links && !are_apart) return DeviceWay::kDirect;
  DeviceWay longest = are_apart ? DeviceWay::kBus : DeviceWay::kDirect;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const std::optional<size_t> one = find(graph, addresses[i]);
    for (size_t j = 0; j < i && one; ++j) {
      const std::optional<size_t> other = find(graph, addresses[j]);
      if (!other || addresses[i] == addresses[j]) continue;
      longest = std::max(longest, way_of(graph.path(*one, *other)));
    }
  }
  return longest;
}

const char* name_of(DeviceWay way) {
  if (way == DeviceWay::kDirect) return "direct links";
  return way == DeviceWay::kBus ? "the bus" : "NUMA nodes";
}

}  // namespace tutti::select
