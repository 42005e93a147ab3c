#include "src/topology/device_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "src/base/decimal.h"
#include "src/base/words.h"
#include "src/topology/processor_sets.h"

namespace tutti::topology {
namespace {

Status refuse(const XmlElement& at, const std::string& why) {
  return Status::invalid_argument("line " + std::to_string(at.line) + ": " + why);
}

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }
std::string tag(const XmlElement& element) { return "<" + element.name + ">"; }

Status need(const XmlElement& element, std::string_view key, const std::string*& value) {
  value = element.find(key);
  if (value != nullptr) return {};
  return refuse(element, tag(element) + " has no " + quoted(key));
}

Status refuse_value(const XmlElement& element, std::string_view key, const std::string& value,
                    const std::string& wanted) {
  return refuse(element, tag(element) + " has " + std::string(key) + "=" + quoted(value) +
                             ", which is no " + wanted);
}

// A whole number of at least `least`; left alone where the attribute is missing.
Status take_whole(const XmlElement& element, std::string_view key, long least,
                  std::optional<long>& number) {
  const std::string* value = element.find(key);
  if (value == nullptr) return {};
  number = parse_integer<long>(*value);
  if (number && *number >= least) return {};
  return refuse_value(element, key, *value, "whole number from " + std::to_string(least) + " on");
}

// "0000:3b:00.0"; a domain may have up to 8 digits.
bool is_address(std::string_view text) {
  const auto digits = [](std::string_view part, size_t least, size_t most) {
    return part.size() >= least && part.size() <= most &&
           parse_integer<uint32_t>(part, 16).has_value();
  };
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() != 3) return false;
  const std::vector<std::string_view> last = split(parts[2], '.');
  return last.size() == 2 && digits(parts[0], 4, 8) && digits(parts[1], 2, 2) &&
         digits(last[0], 2, 2) && digits(last[1], 1, 1);
}

// "fffffff:ffff:ff": NCCL knows of a link, as in a virtual machine without the switches of NVLinks,
// and not where it leads. All such ends are one switch that nobody sees.
bool is_unknown(std::string_view target) {
  return target.find_first_not_of("fF:.") == std::string_view::npos &&
         target.find_first_of("fF") != std::string_view::npos;
}

// PCI Express: lanes of so many transfers a second, of which the encoding leaves a part (8b/10b up
// to 5 GT/s, 128b/130b up to 32, 242 of 256 bytes of a flit from 64 on; PCI Express Base 6.0).
double pci_bytes_per_ns(double transfers, long width) {
  const double part = transfers <= 5 ? 0.8 : transfers <= 32 ? 128.0 / 130 : 242.0 / 256;
  return transfers * part * static_cast<double>(width) / 8;
}

// "32.0 GT/s PCIe", "16 GT/s", "8 GT/s"; an empty text where a virtual machine does not say.
std::optional<double> read_transfers(std::string_view text) {
  if (text.empty() || text == "Unknown" || text == "Unknown speed") return 0;
  const size_t space = text.find(' ');
  const std::string_view unit = space == std::string_view::npos ? "" : text.substr(space + 1);
  if (unit != "GT/s" && unit != "GT/s PCIe") return std::nullopt;
  const auto value = parse_decimal(text.substr(0, space));
  return value && *value > 0 ? value : std::nullopt;
}

// Of one NVLink in one direction, by the generation of the GPU (NVIDIA's white papers: P100, V100,
// A100, H100, Blackwell).
double nvlink_bytes_per_ns(long sm) {
  if (sm < 60) return 0;
  return sm < 70 ? 20 : sm < 100 ? 25 : 50;
}

struct ElementRule {
  std::string_view element;
  std::array<std::string_view, 4> holds;
};
constexpr std::array<ElementRule, 9> kInside = {{{"system", {"cpu"}},
                                                 {"cpu", {"pci", "nic"}},
                                                 {"pci", {"pci", "gpu", "nic", "pcilink"}},
                                                 {"gpu", {"nvlink", "c2c"}},
                                                 {"nic", {"net"}},
                                                 {"net", {}},
                                                 {"nvlink", {}},
                                                 {"c2c", {}},
                                                 {"pcilink", {}}}};

Status check_place(const XmlElement& outer, const XmlElement& element) {
  std::vector<std::string_view> known;
  for (const ElementRule& row : kInside) {
    known.push_back(row.element);
    if (row.element != outer.name) continue;
    if (std::find(row.holds.begin(), row.holds.end(), element.name) != row.holds.end()) return {};
  }
  if (std::find(known.begin(), known.end(), element.name) != known.end()) {
    return refuse(element, tag(element) + " stands inside " + tag(outer) + ", which holds no such");
  }
  return refuse(element, "there is no " + tag(element) + "; did you mean <" +
                             std::string(nearest(element.name, known)) + ">?");
}

Status once(std::map<long, int>& seen, const XmlElement& element, std::string_view key,
            long number) {
  const auto [found, is_new] = seen.try_emplace(number, element.line);
  if (is_new) return {};
  return refuse(element, "two " + tag(element) + " have " + std::string(key) + "=" +
                             std::to_string(number) + "; the other is in line " +
                             std::to_string(found->second));
}

}  // namespace

bool is_gpu_class(std::string_view kind, std::string_view vendor) {
  if (kind.starts_with("0x0302") || kind.starts_with("0x1200")) return true;
  // Others of this class are consoles of servers and of virtual machines.
  return kind.starts_with("0x0300") && (vendor == "0x10de" || vendor == "0x1002");
}

size_t DeviceReader::add(HostDevice device, size_t parent) {
  const size_t number = devices.size();
  const bool outermost = device.kind == DeviceKind::kNuma;
  device.parent = outermost ? number : parent;
  device.numa = outermost ? number : devices[parent].numa;
  if (device.address.empty() && !outermost) device.address = devices[parent].address;
  devices.push_back(std::move(device));
  return number;
}

Status DeviceReader::read(const XmlElement& system) {
  if (system.name != "system") {
    return refuse(system, tag(system) + " is no topology of NCCL: that is a <system>");
  }
  const std::string* version = nullptr;
  if (Status status = need(system, "version", version); !status.ok()) return status;
  if (*version != "1") return refuse_value(system, "version", *version, "version that Tutti reads");
  if (system.children.empty()) return refuse(system, "<system> has no <cpu>");
  for (const XmlElement& child : system.children) {
    if (Status status = check_place(system, child); !status.ok()) return status;
    if (Status status = read_numa(child); !status.ok()) return status;
  }
  if (gpus_.empty()) add_gpus_by_class();
  return check_direct_links();
}

// As NCCL does for files that name PCI devices only. Which number it counts each by is in no file.
void DeviceReader::add_gpus_by_class() {
  for (const size_t pci : gpus_by_class_) {
    HostDevice device;
    device.kind = DeviceKind::kGpu;
    device.name = "gpu " + devices[pci].address;
    add(std::move(device), pci);
  }
}

Status DeviceReader::read_numa(const XmlElement& cpu) {
  const std::string* id = nullptr;
  if (Status status = need(cpu, "numaid", id); !status.ok()) return status;
  std::optional<long> number;
  // -1 where the system has no NUMA nodes.
  if (Status status = take_whole(cpu, "numaid", -1, number); !status.ok()) return status;
  if (Status status = once(numas_, cpu, "numaid", *number); !status.ok()) return status;
  HostDevice numa;
  numa.kind = DeviceKind::kNuma;
  numa.name = "numa " + *id;
  if (const std::string* affinity = cpu.find("affinity"); affinity != nullptr) {
    auto processors = read_mask(*affinity);
    if (!processors) return refuse_value(cpu, "affinity", *affinity, "set of processors");
    numa.processors = std::move(*processors);
    for (const HostDevice& other : devices) {
      if (other.kind != DeviceKind::kNuma) continue;
      std::vector<uint32_t> both;
      std::set_intersection(other.processors.begin(), other.processors.end(),
                            numa.processors.begin(), numa.processors.end(),
                            std::back_inserter(both));
      if (both.empty()) continue;
      return refuse(cpu, "processor " + std::to_string(both.front()) + " is at two NUMA nodes, " +
                             other.name + " and " + numa.name);
    }
  }
  return read_children(cpu, add(std::move(numa), 0));
}

Status DeviceReader::read_children(const XmlElement& element, size_t parent) {
  for (const XmlElement& child : element.children) {
    if (Status status = check_place(element, child); !status.ok()) return status;
    if (Status status = read_child(child, parent); !status.ok()) return status;
  }
  return {};
}

Status DeviceReader::read_child(const XmlElement& element, size_t parent) {
  if (element.name == "pci") return read_pci(element, parent);
  if (element.name == "gpu") return read_gpu(element, parent);
  if (element.name == "net") return read_net(element, parent);
  if (element.name == "pcilink") {
    const std::string* target = nullptr;
    if (Status status = need(element, "target", target); !status.ok()) return status;
    if (is_address(*target)) return {};
    return refuse_value(element, "target", *target, "PCI address like 0000:3b:00.0");
  }
  HostDevice nic;
  nic.kind = DeviceKind::kNic;
  nic.name = "nic";
  return read_children(element, add(std::move(nic), parent));
}

Status DeviceReader::read_pci(const XmlElement& pci, size_t parent) {
  const std::string* address = nullptr;
  if (Status status = need(pci, "busid", address); !status.ok()) return status;
  if (!is_address(*address)) {
    return refuse_value(pci, "busid", *address, "PCI address like 0000:3b:00.0");
  }
  if (!addresses_.insert(*address).second) {
    return refuse(pci, "two <pci> have busid=" + quoted(*address));
  }
  if (const std::string* kind = pci.find("class"); kind != nullptr) {
    if (!kind->starts_with("0x") || !parse_integer<uint32_t>(kind->substr(2), 16)) {
      return refuse_value(pci, "class", *kind, "class of PCI devices like 0x030200");
    }
  }
  std::optional<long> width;
  if (Status status = take_whole(pci, "link_width", 0, width); !status.ok()) return status;
  std::optional<double> transfers = 0;
  if (const std::string* speed = pci.find("link_speed"); speed != nullptr) {
    transfers = read_transfers(*speed);
    if (!transfers) return refuse_value(pci, "link_speed", *speed, "rate like '32.0 GT/s PCIe'");
  }
  constexpr long kWidest = 32;  // 255 and the like: the device does not say
  if (width.value_or(0) > kWidest) width = 0;
  HostDevice device;
  device.name = device.address = *address;
  device.uplink_bytes_per_ns = pci_bytes_per_ns(*transfers, width.value_or(0));
  const size_t added = add(std::move(device), parent);
  const std::string* kind = pci.find("class");
  const std::string* vendor = pci.find("vendor");
  if (kind != nullptr && is_gpu_class(*kind, vendor == nullptr ? "" : *vendor)) {
    gpus_by_class_.push_back(added);
  }
  return read_children(pci, added);
}

Status DeviceReader::read_gpu(const XmlElement& gpu, size_t parent) {
  const std::string* text = nullptr;
  std::optional<long> number, sm, rank;
  if (Status status = need(gpu, "dev", text); !status.ok()) return status;
  if (Status status = take_whole(gpu, "dev", 0, number); !status.ok()) return status;
  if (Status status = take_whole(gpu, "sm", 0, sm); !status.ok()) return status;
  if (Status status = take_whole(gpu, "rank", 0, rank); !status.ok()) return status;
  if (Status status = once(gpus_, gpu, "dev", *number); !status.ok()) return status;
  if (devices[parent].kind != DeviceKind::kPci) return refuse(gpu, "<gpu> is on no <pci>");
  HostDevice device;
  device.kind = DeviceKind::kGpu;
  device.name = "gpu " + *text;
  const size_t added = add(std::move(device), parent);
  for (const XmlElement& link : gpu.children) {
    if (Status status = check_place(gpu, link); !status.ok()) return status;
    Status status = read_gpu_link(link, added, static_cast<int>(sm.value_or(0)));
    if (!status.ok()) return status;
  }
  return {};
}

Status DeviceReader::read_gpu_link(const XmlElement& link, size_t gpu, int sm) {
  const std::string* text = nullptr;
  std::optional<long> count;
  if (Status status = need(link, "count", text); !status.ok()) return status;
  if (Status status = take_whole(link, "count", 1, count); !status.ok()) return status;
  if (link.name == "c2c") {  // to the processor
    std::optional<long> megabytes;
    if (Status status = need(link, "bw", text); !status.ok()) return status;
    return take_whole(link, "bw", 1, megabytes);
  }
  if (Status status = need(link, "target", text); !status.ok()) return status;
  if (!is_address(*text) && !is_unknown(*text)) {
    return refuse_value(link, "target", *text, "PCI address like 0000:3b:00.0");
  }
  if (*text == devices[gpu].address) return {};  // as clouds write it: a loop leads nowhere
  const std::string target = is_unknown(*text) ? "ffff:ff:ff.f" : *text;
  const double bytes_per_ns = nvlink_bytes_per_ns(sm) * static_cast<double>(*count);
  for (DirectLink& other : direct_links) {
    if (other.gpu != gpu || other.target != target) continue;
    if (is_unknown(*text)) {
      other.count += static_cast<uint32_t>(*count);
      other.bytes_per_ns += bytes_per_ns;
      return {};
    }
    return refuse(link, "two <nvlink> of " + devices[gpu].name + " have target=" + quoted(*text));
  }
  direct_links.push_back({gpu, target, static_cast<uint32_t>(*count), bytes_per_ns});
  link_lines_.push_back(link.line);
  return {};
}

// Both ends of links between GPUs say how many there are.
Status DeviceReader::check_direct_links() const {
  for (size_t i = 0; i < direct_links.size(); ++i) {
    const DirectLink& link = direct_links[i];
    for (const DirectLink& back : direct_links) {
      if (devices[back.gpu].address != link.target || back.target != devices[link.gpu].address) {
        continue;
      }
      if (back.count == link.count) continue;
      return Status::invalid_argument(
          "line " + std::to_string(link_lines_[i]) + ": " + devices[link.gpu].name + " has " +
          std::to_string(link.count) + " links to " + devices[back.gpu].name + ", which has " +
          std::to_string(back.count) + " back");
    }
  }
  return {};
}

Status DeviceReader::read_net(const XmlElement& net, size_t parent) {
  const std::string* name = nullptr;
  const std::string* text = nullptr;
  std::optional<long> number, port, speed;
  if (Status status = need(net, "name", name); !status.ok()) return status;
  if (Status status = need(net, "dev", text); !status.ok()) return status;
  if (Status status = take_whole(net, "dev", 0, number); !status.ok()) return status;
  if (Status status = take_whole(net, "port", 0, port); !status.ok()) return status;
  // -1 where the card does not say.
  if (Status status = take_whole(net, "speed", -1, speed); !status.ok()) return status;
  if (const std::string* latency = net.find("latency"); latency != nullptr) {
    const auto value = parse_decimal(*latency);
    if (!value || *value < 0) return refuse_value(net, "latency", *latency, "number of at least 0");
  }
  const auto [found, is_new] =
      nets_.try_emplace(*name + " port " + std::to_string(port.value_or(0)), net.line);
  if (!is_new) {
    return refuse(net, "two <net> have name=" + quoted(*name) +
                           " and the same port; the other is " + "in line " +
                           std::to_string(found->second));
  }
  HostDevice device;
  device.kind = DeviceKind::kNet;
  device.name = *name;
  constexpr double kMegabitPerByteInNs = 8000;
  device.uplink_bytes_per_ns =
      static_cast<double>(std::max(speed.value_or(0), 0L)) / kMegabitPerByteInNs;
  add(std::move(device), parent);
  return {};
}

}  // namespace tutti::topology
