#include "src/topology/sysfs_devices.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/words.h"
#include "src/topology/device_reader.h"
#include "src/topology/processor_sets.h"
#include "src/topology/sysfs_files.h"

namespace tutti::topology {
namespace {

// By the first digits of a PCI class (PCI Code and ID Assignment): Ethernet and InfiniBand.
bool is_network(std::string_view kind) {
  return kind.starts_with("0x0200") || kind.starts_with("0x0207") || kind.starts_with("0x0280");
}

bool looks_like_an_address(std::string_view name) {
  return name.size() >= 12 && name[name.size() - 2] == '.' && name[name.size() - 5] == ':' &&
         name[name.size() - 8] == ':';
}

struct NetName {
  std::string name;
  long megabits = -1;
};

class DeviceFiles {
 public:
  explicit DeviceFiles(const std::string& root)
      : sys_(root + "/sys/"), pci_(sys_ + "bus/pci/devices/") {}

  XmlElement read() {
    XmlElement system{"system", 0, {{"version", "1"}}, {}};
    find_networks();
    add_numa_nodes(system);
    for (const std::string& address : names_in(pci_)) {
      const std::string kind = read_line(pci_ + address + "/class").value_or("");
      const std::string vendor = read_line(pci_ + address + "/vendor").value_or("");
      if (!is_gpu_class(kind, vendor) && !is_network(kind)) continue;
      if (is_network(kind) && !networks_.contains(address)) continue;  // no driver has it
      add_device(system, address);
    }
    return system;
  }

  // Where the description of the host names none.
  void complete_networks(XmlElement& system) {
    find_networks();
    add_networks_below(system);
  }

 private:
  void add_networks_below(XmlElement& element) {
    for (XmlElement& child : element.children) add_networks_below(child);
    const std::string* address = element.name == "pci" ? element.find("busid") : nullptr;
    if (address != nullptr) add_networks(element, std::string(*address));
  }

  // The addresses from the root port to the device, last the device.
  std::vector<std::string> way_to(const std::string& entry) const {
    std::error_code error;
    std::vector<std::string> way;
    for (const auto& part : std::filesystem::canonical(entry, error)) {
      if (looks_like_an_address(part.string())) way.push_back(part);
    }
    return way;
  }

  // InfiniBand's names before those of network interfaces of the same device.
  void find_networks() {
    for (const std::string& name : names_in(sys_ + "class/infiniband")) {
      const std::string folder = sys_ + "class/infiniband/" + name;
      const auto way = way_to(folder + "/device");
      if (way.empty()) continue;
      // "400 Gb/sec (4X NDR)"
      const std::string rate = read_line(folder + "/ports/1/rate").value_or("");
      const auto gigabits = parse_integer<long>(rate.substr(0, rate.find(' ')));
      networks_[way.back()].push_back({name, gigabits ? *gigabits * 1000 : -1});
    }
    const auto infiniband = networks_;
    for (const std::string& name : names_in(sys_ + "class/net")) {
      const std::string folder = sys_ + "class/net/" + name;
      const auto way = way_to(folder + "/device");
      if (way.empty() || infiniband.contains(way.back())) continue;
      const auto megabits = parse_integer<long>(read_line(folder + "/speed").value_or(""));
      networks_[way.back()].push_back({name, megabits && *megabits > 0 ? *megabits : -1});
    }
  }

  void add_numa_nodes(XmlElement& system) const {
    const auto nodes =
        read_set(sys_ + "devices/system/node/online").value_or(std::vector<uint32_t>{});
    for (const uint32_t node : nodes) {
      const std::string folder = sys_ + "devices/system/node/node" + std::to_string(node);
      const auto near = read_set(folder + "/cpulist").value_or(std::vector<uint32_t>{});
      add_numa_node(system, std::to_string(node), near);
    }
    if (!nodes.empty()) return;
    const auto all = read_set(sys_ + "devices/system/cpu/online").value_or(std::vector<uint32_t>{});
    add_numa_node(system, "-1", all);
  }

  static void add_numa_node(XmlElement& system, const std::string& number,
                            const std::vector<uint32_t>& processors) {
    system.children.push_back(
        {"cpu", 0, {{"numaid", number}, {"affinity", write_mask(processors)}}, {}});
  }

  XmlElement& numa_of(XmlElement& system, const std::string& address) const {
    const std::string node = read_line(pci_ + address + "/numa_node").value_or("-1");
    for (XmlElement& cpu : system.children) {
      if (*cpu.find("numaid") == node) return cpu;
    }
    return system.children.front();  // where a host does not say
  }

  void add_device(XmlElement& system, const std::string& address) {
    const std::vector<std::string> way = way_to(pci_ + address);
    XmlElement* inside = &numa_of(system, address);
    // Behind the root port a switch is two bridges, the port towards the host and one towards the
    // device: it is named by the first.
    for (size_t i = 1; i + 1 < way.size(); i += 2) inside = &pci_in(*inside, way[i]);
    add_networks(pci_in(*inside, address), address);
  }

  void add_networks(XmlElement& device, const std::string& address) {
    const auto found = networks_.find(address);
    if (found == networks_.end()) return;
    XmlElement nic{"nic", 0, {}, {}};
    for (const NetName& network : found->second) {
      nic.children.push_back({"net",
                              0,
                              {{"name", network.name},
                               {"dev", std::to_string(nets_++)},
                               {"speed", std::to_string(network.megabits)},
                               {"port", "1"},
                               {"latency", "0"},
                               {"guid", "0x0"},
                               {"maxconn", "65536"},
                               {"gdr", "0"}},
                              {}});
    }
    device.children.push_back(std::move(nic));
  }

  XmlElement& pci_in(XmlElement& inside, const std::string& address) const {
    for (XmlElement& child : inside.children) {
      const std::string* known = child.find("busid");
      if (known != nullptr && *known == address) return child;
    }
    XmlElement made{"pci", 0, {{"busid", address}}, {}};
    for (const char* key : {"class", "vendor", "device", "subsystem_vendor", "subsystem_device"}) {
      const auto value = read_line(pci_ + address + "/" + key);
      if (value) made.attributes.emplace_back(key, *value);
    }
    constexpr long kWidest = 32;  // 255 and the like: the device does not say
    const auto width =
        parse_integer<long>(read_line(pci_ + address + "/max_link_width").value_or(""));
    const bool said = width && *width >= 0 && *width <= kWidest;
    const std::string speed = read_line(pci_ + address + "/max_link_speed").value_or("");
    made.attributes.emplace_back("link_speed", said ? speed : "");
    made.attributes.emplace_back("link_width", said ? std::to_string(*width) : "0");
    inside.children.push_back(std::move(made));
    return inside.children.back();
  }

  const std::string sys_;
  const std::string pci_;
  std::map<std::string, std::vector<NetName>> networks_;  // by the address of their card
  int nets_ = 0;
};

}  // namespace

Result<DeviceGraph> read_sysfs_devices(const std::string& root) {
  return DeviceGraph::make(DeviceFiles(root).read());
}

void complete_networks(XmlElement& system, const std::string& root) {
  DeviceFiles(root).complete_networks(system);
}

}  // namespace tutti::topology
