// Checks NCCL's XML of a host and finds its devices: a part of DeviceGraph.
//
// Threads: one. Errors: "line N: why".
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/topology/device_graph.h"

namespace tutti::topology {

/// By class and vendor of PCI ("0x030200", "0x10de"; empty: not known): display controllers of
/// those who make GPUs for computing, and accelerators.
bool is_gpu_class(std::string_view kind, std::string_view vendor);

class DeviceReader {
 public:
  Status read(const XmlElement& system);

  std::vector<HostDevice> devices;
  std::vector<DirectLink> direct_links;

 private:
  Status read_numa(const XmlElement& cpu);
  Status read_children(const XmlElement& element, size_t parent);
  Status read_child(const XmlElement& element, size_t parent);
  Status read_pci(const XmlElement& pci, size_t parent);
  Status read_gpu(const XmlElement& gpu, size_t parent);
  Status read_gpu_link(const XmlElement& link, size_t gpu, int sm);
  Status read_net(const XmlElement& net, size_t parent);
  Status check_direct_links() const;
  void add_gpus_by_class();
  size_t add(HostDevice device, size_t parent);

  std::set<std::string, std::less<>> addresses_;
  std::map<long, int> numas_;  // where each is
  std::map<long, int> gpus_;
  std::vector<size_t> gpus_by_class_;  // <pci>
  std::map<std::string, int> nets_;
  std::vector<int> link_lines_;
};

}  // namespace tutti::topology
