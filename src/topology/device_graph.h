// The devices of a host and the links between them: PCI, NVLink, network cards.
//
// They are described as NCCL describes them, in the XML of NCCL_TOPO_FILE and NCCL_TOPO_DUMP_FILE:
//
//   <system version="1">
//     <cpu numaid="0" affinity="ffff">           one for each NUMA node, with its processors
//       <pci busid="0000:16:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
//         <pci busid="0000:18:00.0" class="0x030200" ...> <gpu dev="0" sm="90"> <nvlink .../>
//         </gpu> <pci busid="0000:19:00.0" class="0x020700" ...> <nic> <net name="mlx5_0" dev="0"
//         .../> </nic>
//
// Elements and attributes that Tutti does not read are kept, and written again.
//
// Threads: a value, immutable once made. Errors: "line N: why". Units: bytes per nanosecond, in one
// direction; 0 where nobody said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/config.h"
#include "src/base/status.h"
#include "src/topology/xml_element.h"

namespace tutti::topology {

enum class DeviceKind { kNuma, kPci, kGpu, kNic, kNet };

struct HostDevice {
  DeviceKind kind = DeviceKind::kPci;
  std::string name;                  // "numa 0", a PCI address, "gpu 3", "nic 2", "mlx5_0"
  size_t parent = 0;                 // among the devices; its own number for a NUMA node
  size_t numa = 0;                   // the device that is its NUMA node
  std::string address;               // PCI, of the device or of what it sits on; empty: none
  double uplink_bytes_per_ns = 0;    // to its parent; of a network, to what is outside
  std::vector<uint32_t> processors;  // of a NUMA node
};

/// Links besides the tree, in both directions: between GPUs, or of a GPU and a switch of NVLinks,
/// which is no device of the tree.
struct DirectLink {
  size_t gpu = 0;      // a device
  std::string target;  // a PCI address
  uint32_t count = 0;  // of lanes side by side
  double bytes_per_ns = 0;
};

/// How two devices reach each other, nearest first; in brackets NCCL's words.
enum class DevicePath {
  kSame,          // one device [LOC]
  kDirect,        // NVLinks, or a switch of them [NVL]
  kSwitch,        // one PCI switch [PIX]
  kManySwitches,  // PCI switches, no processor [PXB]
  kHostBridge,    // the NUMA node that both are at [PHB]
  kBetweenNodes,  // from a NUMA node to another one [SYS]
};
/// "NVL", as NCCL and nvidia-smi write it.
std::string_view short_name(DevicePath path);

class DeviceGraph {
 public:
  /// `file`: its name in messages.
  static Result<DeviceGraph> parse(std::string_view xml, const std::string& file);
  static Result<DeviceGraph> make(XmlElement system);
  static Result<DeviceGraph> read(const std::string& file);
  /// Of this host: as a setting's file says, which errors name, or as found.
  static Result<DeviceGraph> of_host(const Config& config);

  std::string write() const;

  const std::vector<HostDevice>& devices() const { return devices_; }
  const std::vector<DirectLink>& direct_links() const { return direct_links_; }
  /// The numbers of the devices of a kind, in the order of the file.
  std::vector<size_t> all(DeviceKind kind) const;
  DevicePath path(size_t device, size_t other) const;
  /// Of the thinnest link of the path, where all are known; else 0.
  double path_bytes_per_ns(size_t device, size_t other) const;

 private:
  DeviceGraph() = default;
  DirectLink direct(size_t gpu, size_t other) const;  // all together; of count 0: none
  std::vector<size_t> above(size_t device) const;

  XmlElement system_;
  std::vector<HostDevice> devices_;
  std::vector<DirectLink> direct_links_;
};

/// The tree, one line for each device, and where there are GPUs, how each of them reaches GPUs and
/// networks.
std::string print_devices(const DeviceGraph& graph);

}  // namespace tutti::topology
