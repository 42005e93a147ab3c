#include "src/topology/sysfs.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "src/base/words.h"
#include "src/topology/sysfs_files.h"

namespace tutti::topology {
namespace {

// "32768K", "2M"
uint64_t read_size(const std::string& path) {
  const std::string line = read_line(path).value_or("");
  if (line.empty()) return 0;
  const int shift = line.back() == 'K' ? 10 : line.back() == 'M' ? 20 : 0;
  const std::string_view digits(line.data(), line.size() - (shift > 0 ? 1 : 0));
  return parse_integer<uint64_t>(digits).value_or(0) << shift;
}

// "Node 0 MemTotal:       16384000 kB"
uint64_t read_memory(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find("MemTotal:");
    if (at == std::string::npos) continue;
    const std::string_view rest =
        trim(std::string_view(line).substr(at + std::string_view("MemTotal:").size()));
    return parse_integer<uint64_t>(rest.substr(0, rest.find(' '))).value_or(0) << 10;
  }
  return 0;
}

class SysfsReader {
 public:
  explicit SysfsReader(const std::string& root) : root_(root + "/sys/devices/system/") {}

  Result<HostFacts> run() {
    facts_.found_by = "sysfs";
    const auto online = read_set(root_ + "cpu/online");
    if (!online || online->empty()) {
      return Status::system_error(root_ + "cpu/online does not say which processors there are");
    }
    facts_.processors = *online;
    for (const uint32_t number : facts_.processors) add_processor(number);
    for (auto& [key, object] : objects_) facts_.objects.push_back(std::move(object));
    add_memory();
    return std::move(facts_);
  }

 private:
  // Equal sets of one level are one object, whichever of their processors says so.
  void add(const std::string& level, std::vector<uint32_t> processors, uint64_t bytes) {
    const auto key = std::pair(level, processors);
    objects_.try_emplace(key, HostObject{level, std::move(processors), bytes});
  }

  void add_processor(uint32_t number) {
    const std::string folder = root_ + "cpu/cpu" + std::to_string(number) + "/";
    const std::string said = folder + "topology/";
    auto core = read_set(said + "core_cpus_list");
    if (!core) core = read_set(said + "thread_siblings_list");
    auto package = read_set(said + "package_cpus_list");
    if (!package) package = read_set(said + "core_siblings_list");
    if (core) add("core", *core, 0);
    if (package) add("package", *package, 0);
    const auto die = read_set(said + "die_cpus_list");
    if (die && die != package) add("die", *die, 0);
    for (int index = 0;; ++index) {
      const std::string cache = folder + "cache/index" + std::to_string(index) + "/";
      const auto level = read_line(cache + "level");
      if (!level) return;
      const auto shared = read_set(cache + "shared_cpu_list");
      if (!shared || read_line(cache + "type") == "Instruction") continue;
      add("L" + *level, *shared, read_size(cache + "size"));
    }
  }

  void add_memory() {
    const auto nodes = read_set(root_ + "node/online");
    if (!nodes) {
      facts_.notes.push_back(root_ + "node says nothing of NUMA nodes");
      return;
    }
    for (const uint32_t node : *nodes) {
      const std::string folder = root_ + "node/node" + std::to_string(node) + "/";
      const auto near = read_set(folder + "cpulist");
      const uint64_t bytes = read_memory(folder + "meminfo");
      if (near && !near->empty()) facts_.objects.push_back({"numa", *near, bytes});
      if (near && near->empty()) {
        facts_.notes.push_back("NUMA node " + std::to_string(node) + " is near no processor");
      }
    }
  }

  const std::string root_;
  HostFacts facts_;
  std::map<std::pair<std::string, std::vector<uint32_t>>, HostObject> objects_;
};

}  // namespace

Result<HostFacts> read_sysfs(const std::string& root) { return SysfsReader(root).run(); }

}  // namespace tutti::topology
