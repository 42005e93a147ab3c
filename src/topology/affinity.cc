#include "src/topology/affinity.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tutti::topology {
namespace {

// Part `which` of so many of the processors, in the order of the tree; at least one.
std::vector<uint32_t> part_of(const std::vector<uint32_t>& processors, size_t which, size_t parts) {
  if (processors.empty()) return {};
  const size_t first = which * processors.size() / parts;
  const size_t last = std::max((which + 1) * processors.size() / parts, first + 1);
  std::vector<uint32_t> part(processors.begin() + static_cast<std::ptrdiff_t>(first),
                             processors.begin() + static_cast<std::ptrdiff_t>(last));
  std::sort(part.begin(), part.end());
  return part;
}

// Those of a rising set, in the order of the tree.
std::vector<uint32_t> those_in(std::span<const uint32_t> set,
                               const std::vector<uint32_t>& processors) {
  std::vector<uint32_t> found;
  for (const uint32_t number : processors) {
    if (std::binary_search(set.begin(), set.end(), number)) found.push_back(number);
  }
  return found;
}

// The NUMA node at which most of the processors are.
size_t numa_of(const DeviceGraph& devices, const std::vector<uint32_t>& processors) {
  size_t best = 0, most = 0;
  for (const size_t numa : devices.all(DeviceKind::kNuma)) {
    std::vector<uint32_t> both;
    const std::vector<uint32_t>& its = devices.devices()[numa].processors;
    std::set_intersection(its.begin(), its.end(), processors.begin(), processors.end(),
                          std::back_inserter(both));
    if (both.size() <= most) continue;
    most = both.size();
    best = numa;
  }
  return best;
}

}  // namespace

Result<std::vector<RankPlace>> place_ranks(const HostTree& host, const DeviceGraph& devices,
                                           int ranks, std::span<const uint32_t> usable) {
  if (ranks < 1) return Status::invalid_argument("a host has at least one rank");
  std::vector<uint32_t> processors = those_in(usable, host.processors);
  if (processors.empty()) processors.assign(usable.begin(), usable.end());
  const auto count = static_cast<size_t>(ranks);
  const std::vector<size_t> gpus = devices.all(DeviceKind::kGpu);
  const bool has_gpus = gpus.size() >= count;
  std::map<size_t, size_t> at_numa;  // of the ranks with GPUs: how many are there
  for (size_t rank = 0; has_gpus && rank < count; ++rank) {
    ++at_numa[devices.devices()[gpus[rank]].numa];
  }
  std::map<size_t, size_t> placed_at;
  std::map<size_t, size_t> users;  // of each network
  std::vector<RankPlace> places(count);
  for (size_t rank = 0; rank < count; ++rank) {
    RankPlace& place = places[rank];
    size_t from = 0;
    if (has_gpus) {
      from = gpus[rank];
      const HostDevice& gpu = devices.devices()[from];
      const std::vector<uint32_t> there =
          those_in(devices.devices()[gpu.numa].processors, processors);
      place.gpu = gpu.name;
      place.processors = part_of(there, placed_at[gpu.numa]++, at_numa[gpu.numa]);
    }
    if (place.processors.empty()) place.processors = part_of(processors, rank, count);
    if (!has_gpus) from = numa_of(devices, place.processors);
    const std::vector<size_t> networks = devices.all(DeviceKind::kNet);
    const auto best = std::min_element(networks.begin(), networks.end(), [&](size_t a, size_t b) {
      return std::pair(devices.path(from, a), users[a]) <
             std::pair(devices.path(from, b), users[b]);
    });
    if (best == networks.end()) continue;
    ++users[*best];
    place.network = devices.devices()[*best].name;
  }
  return places;
}

std::vector<std::string> nearest_networks(const DeviceGraph& devices, std::string_view address) {
  const std::vector<HostDevice>& all = devices.devices();
  const auto is_it = [&](const HostDevice& device) { return device.address == address; };
  const auto device = std::find_if(all.begin(), all.end(), is_it);
  const std::vector<size_t> networks = devices.all(DeviceKind::kNet);
  if (address.empty() || device == all.end() || networks.empty()) return {};
  const auto from = static_cast<size_t>(device - all.begin());
  const auto path_to = [&](size_t network) { return devices.path(from, network); };
  const auto nearer = [&](size_t a, size_t b) { return path_to(a) < path_to(b); };
  const DevicePath best = path_to(*std::min_element(networks.begin(), networks.end(), nearer));
  std::vector<std::string> names;
  for (const size_t network : networks) {
    if (path_to(network) == best) names.push_back(all[network].name);
  }
  return names;
}

}  // namespace tutti::topology
