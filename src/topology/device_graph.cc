#include "src/topology/device_graph.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "src/topology/device_reader.h"
#include "src/topology/sysfs_devices.h"
#include "src/topology/text_file.h"

namespace tutti::topology {
namespace {

void write_element(const XmlElement& element, size_t depth, std::string& text) {
  text += std::string(2 * depth, ' ') + "<" + element.name;
  for (const auto& [key, value] : element.attributes) {
    text += " " + key + "=\"" + escape_xml(value) + "\"";
  }
  if (element.children.empty()) {
    text += "/>\n";
    return;
  }
  text += ">\n";
  for (const XmlElement& child : element.children) write_element(child, depth + 1, text);
  text += std::string(2 * depth, ' ') + "</" + element.name + ">\n";
}

}  // namespace

std::string_view short_name(DevicePath path) {
  constexpr std::string_view kNames[] = {"LOC", "NVL", "PIX", "PXB", "PHB", "SYS"};
  return kNames[static_cast<size_t>(path)];
}

Result<DeviceGraph> DeviceGraph::make(XmlElement system) {
  DeviceReader reader;
  if (Status status = reader.read(system); !status.ok()) return status;
  DeviceGraph made;
  made.system_ = std::move(system);
  made.devices_ = std::move(reader.devices);
  made.direct_links_ = std::move(reader.direct_links);
  return made;
}

Result<DeviceGraph> DeviceGraph::parse(std::string_view xml, const std::string& file) {
  Result<XmlElement> system = parse_xml(xml);
  if (!system.ok()) return in_file(system.status(), file);
  Result<DeviceGraph> made = make(std::move(system).value());
  if (!made.ok()) return in_file(made.status(), file);
  return made;
}

Result<DeviceGraph> DeviceGraph::read(const std::string& file) {
  const Result<std::string> xml = read_text_file(file);
  if (!xml.ok()) return xml.status();
  return parse(xml.value(), file);
}

Result<DeviceGraph> DeviceGraph::of_host(const Config& config) {
  if (config.host_topology_file.empty()) return read_sysfs_devices("");
  Result<DeviceGraph> read_from_file = read(config.host_topology_file);
  if (read_from_file.ok()) {
    if (!read_from_file.value().all(DeviceKind::kNet).empty()) return read_from_file;
    XmlElement system = std::move(read_from_file.value().system_);
    complete_networks(system, "");
    return make(std::move(system));
  }
  const Status& status = read_from_file.status();
  return Status(status.code(),
                origin_of(config, "TUTTI_HOST_TOPOLOGY") + ": " + std::string(status.message()));
}

std::string DeviceGraph::write() const {
  std::string text;
  write_element(system_, 0, text);
  return text;
}

std::vector<size_t> DeviceGraph::all(DeviceKind kind) const {
  std::vector<size_t> found;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].kind == kind) found.push_back(i);
  }
  return found;
}

// The device and what it hangs under, up to its NUMA node. A GPU and the card that it sits on are
// one, as are a network, its card, and the PCI device.
std::vector<size_t> DeviceGraph::above(size_t device) const {
  std::vector<size_t> chain = {device};
  while (devices_[device].parent != device) {
    const size_t parent = devices_[device].parent;
    if (devices_[device].kind != DeviceKind::kPci && !devices_[device].address.empty() &&
        devices_[device].address == devices_[parent].address) {
      chain.back() = parent;
    } else {
      chain.push_back(parent);
    }
    device = parent;
  }
  return chain;
}

DirectLink DeviceGraph::direct(size_t gpu, size_t other) const {
  DirectLink through{gpu, devices_[other].address, 0, 0};
  for (const DirectLink& mine : direct_links_) {
    if (mine.gpu != gpu) continue;
    if (mine.target == devices_[other].address) return mine;
    // By switches, which are no devices: as much as both have to the same targets.
    for (const DirectLink& theirs : direct_links_) {
      if (theirs.gpu != other || mine.target != theirs.target) continue;
      through.count += std::min(mine.count, theirs.count);
      through.bytes_per_ns += std::min(mine.bytes_per_ns, theirs.bytes_per_ns);
    }
  }
  return through;
}

DevicePath DeviceGraph::path(size_t device, size_t other) const {
  if (device == other) return DevicePath::kSame;
  if (direct(device, other).count > 0) return DevicePath::kDirect;
  const std::vector<size_t> mine = above(device), theirs = above(other);
  if (mine.front() == theirs.front()) return DevicePath::kSame;
  if (mine.back() != theirs.back()) return DevicePath::kBetweenNodes;
  size_t up = 0, down = 0;
  for (; up < mine.size(); ++up) {
    const auto found = std::find(theirs.begin(), theirs.end(), mine[up]);
    down = static_cast<size_t>(found - theirs.begin());
    if (found != theirs.end()) break;
  }
  if (devices_[mine[up]].kind == DeviceKind::kNuma) return DevicePath::kHostBridge;
  return up <= 1 && down <= 1 ? DevicePath::kSwitch : DevicePath::kManySwitches;
}

double DeviceGraph::path_bytes_per_ns(size_t device, size_t other) const {
  const DirectLink links = direct(device, other);
  if (links.count > 0) return links.bytes_per_ns;
  const std::vector<size_t> mine = above(device), theirs = above(other);
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [chain, across] : {std::pair(&mine, &theirs), std::pair(&theirs, &mine)}) {
    for (const size_t at : *chain) {
      if (std::find(across->begin(), across->end(), at) != across->end()) break;
      if (devices_[at].kind != DeviceKind::kPci) continue;
      least = std::min(least, devices_[at].uplink_bytes_per_ns);
    }
  }
  return least == std::numeric_limits<double>::infinity() ? 0 : least;
}

}  // namespace tutti::topology
