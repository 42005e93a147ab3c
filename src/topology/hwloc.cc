#include "src/topology/hwloc.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "src/base/words.h"
#include "src/topology/processor_sets.h"
#include "src/topology/xml_element.h"

namespace tutti::topology {
namespace {

struct TypeName {
  std::string_view theirs;
  std::string_view ours;
  std::string_view bytes;  // the attribute that says its size
};
constexpr std::array<TypeName, 9> kTypes = {{{"Core", "core", ""},
                                             {"L1Cache", "L1", "cache_size"},
                                             {"L2Cache", "L2", "cache_size"},
                                             {"L3Cache", "L3", "cache_size"},
                                             {"L4Cache", "L4", "cache_size"},
                                             {"Die", "die", ""},
                                             {"NUMANode", "numa", "local_memory"},
                                             {"Package", "package", ""},
                                             {"PU", "", ""}}};

Status refuse(const XmlElement& at, const std::string& why) {
  return Status::invalid_argument("line " + std::to_string(at.line) + ": " + why);
}

Status add_object(const XmlElement& element, HostFacts& facts) {
  const std::string* type = element.find("type");
  if (type == nullptr) return refuse(element, "an object has no type");
  const auto known = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const TypeName& name) { return name.theirs == *type; });
  if (known != kTypes.end()) {
    const std::string* set = element.find("cpuset");
    auto processors = set == nullptr ? std::nullopt : read_mask(*set);
    if (!processors)
      return refuse(element, "an object of type " + *type + " has no set of processors");
    if (known->ours.empty()) {
      facts.processors.insert(facts.processors.end(), processors->begin(), processors->end());
    } else if (!processors->empty()) {
      const std::string* bytes = known->bytes.empty() ? nullptr : element.find(known->bytes);
      facts.objects.push_back({std::string(known->ours), std::move(*processors),
                               bytes == nullptr ? 0 : parse_integer<uint64_t>(*bytes).value_or(0)});
    }
  }
  for (const XmlElement& child : element.children) {
    if (child.name != "object") continue;
    if (Status status = add_object(child, facts); !status.ok()) return status;
  }
  return {};
}

struct HwlocTopology;  // theirs

// The functions that are asked for, which hwloc 2 promises to keep.
struct HwlocFunctions {
  int (*init)(HwlocTopology**) = nullptr;
  int (*load)(HwlocTopology*) = nullptr;
  int (*write)(HwlocTopology*, char**, int*, unsigned long) = nullptr;
  void (*free)(HwlocTopology*, char*) = nullptr;
  void (*destroy)(HwlocTopology*) = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Result<std::string> xml_of(const HwlocFunctions& hwloc) {
  HwlocTopology* made = nullptr;
  if (hwloc.init(&made) != 0) return Status::system_error("hwloc refuses to begin");
  const std::unique_ptr<HwlocTopology, decltype(hwloc.destroy)> topology(made, hwloc.destroy);
  char* text = nullptr;
  int bytes = 0;
  if (hwloc.load(made) != 0 || hwloc.write(made, &text, &bytes, 0) != 0) {
    return Status::system_error("hwloc finds no topology");
  }
  // The end of the text is counted.
  std::string xml(text, static_cast<size_t>(std::max(bytes, 1)) - 1);
  hwloc.free(made, text);
  return xml;
}

}  // namespace

Result<HostFacts> read_hwloc(std::string_view xml) {
  const Result<XmlElement> parsed = parse_xml(xml);
  if (!parsed.ok()) return parsed.status();
  const XmlElement& root = parsed.value();
  const std::string* version = root.find("version");
  if (root.name != "topology" || version == nullptr || !version->starts_with("2.")) {
    return refuse(root, "this is no topology of hwloc 2");
  }
  HostFacts facts;
  facts.found_by = "hwloc";
  for (const XmlElement& child : root.children) {
    if (child.name != "object") continue;
    if (Status status = add_object(child, facts); !status.ok()) return status;
  }
  return facts;
}

Result<HostFacts> ask_hwloc() {
  constexpr const char* kLibrary = "libhwloc.so.15";
  const std::unique_ptr<void, int (*)(void*)> library(dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL),
                                                      dlclose);
  if (library == nullptr) {
    return Status::unsupported(std::string("hwloc is not here (") + kLibrary + ")");
  }
  HwlocFunctions hwloc;
  if (!find(library.get(), "hwloc_topology_init", hwloc.init) ||
      !find(library.get(), "hwloc_topology_load", hwloc.load) ||
      !find(library.get(), "hwloc_topology_export_xmlbuffer", hwloc.write) ||
      !find(library.get(), "hwloc_free_xmlbuffer", hwloc.free) ||
      !find(library.get(), "hwloc_topology_destroy", hwloc.destroy)) {
    return Status::unsupported(std::string(kLibrary) + " lacks a function of hwloc 2");
  }
  const Result<std::string> xml = xml_of(hwloc);
  if (!xml.ok()) return xml.status();
  return read_hwloc(xml.value());
}

}  // namespace tutti::topology
