// How a topology is written: equal neighbours once, with their number.

#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/topology/cluster_file.h"
#include "src/topology/equal_nodes.h"
#include "src/topology/hash.h"

namespace tutti::topology {
namespace {

constexpr int kIndent = 2;

std::string spaces(int depth) { return std::string(static_cast<size_t>(depth * kIndent), ' '); }

// In microseconds, so that reading them gives the same nanoseconds: the quotient may be off by one
// in its last place.
double microseconds(double latency_ns) {
  const double near = latency_ns / 1000;
  for (const double candidate : {near, std::nextafter(near, 0.0), std::nextafter(near, 1e300)}) {
    if (candidate * 1000 == latency_ns) return candidate;
  }
  return near;
}

std::string level_line(const LevelSpec& level) {
  std::string line = fmt::format(R"({{"name": "{}")", level.name);
  const auto add = [&](const char* key, double value) {
    if (value > 0) line += fmt::format(R"(, "{}": {})", key, value);
  };
  add("latency_us", microseconds(level.latency_ns));
  add("port_GB_per_s", level.port_bytes_per_ns);
  add("oversubscription", level.oversubscription);
  add("shared_GB_per_s", level.shared_bytes_per_ns);
  return line + "}";
}

class TreeText {
 public:
  explicit TreeText(const Topology& topology) : topology_(topology), equal_(topology) {}

  std::string write() const { return node_text(topology_.levels() - 1, {0, 1}, 1); }

 private:
  std::string node_text(size_t level, const Neighbours& nodes, int depth) const {
    std::vector<std::string> fields;
    const std::string own_names = equal_.names(level, nodes);
    if (!own_names.empty()) fields.push_back(fmt::format(R"("name": "{}")", own_names));
    if (own_names.empty() && nodes.count > 1) {
      fields.push_back(fmt::format(R"("count": {})", nodes.count));
    }
    const double uplink = equal_.own_uplink(level, nodes.first);
    if (uplink > 0) fields.push_back(fmt::format(R"("uplink_GB_per_s": {})", uplink));
    if (level == 0) {
      fields.push_back(fmt::format(R"("ranks": {})", topology_.children(0, nodes.first).size()));
    } else {
      std::vector<std::string> children;
      for (const Neighbours& below : equal_.children(level, nodes.first)) {
        children.push_back("\n" + spaces(depth + 1) + node_text(level - 1, below, depth + 1));
      }
      fields.push_back(fmt::format(R"("children": [{}])", fmt::join(children, ",")));
    }
    return fmt::format("{{{}}}", fmt::join(fields, ", "));
  }

  const Topology& topology_;
  const EqualNodes equal_;
};

}  // namespace

std::string write_cluster(const Topology& topology) {
  std::string text = fmt::format("{{\n{}\"tutti_topology\": {},\n", spaces(1), kClusterFormat);
  if (!topology.name().empty()) text += fmt::format("  \"name\": \"{}\",\n", topology.name());
  text += "  \"levels\": [";
  for (size_t level = topology.levels(); level-- > 0;) {
    text += "\n" + spaces(2) + level_line(topology.level(level)) + (level > 0 ? "," : "");
  }
  return text + "\n  ],\n  \"tree\": " + TreeText(topology).write() + "\n}\n";
}

uint64_t fingerprint(const Topology& topology) { return fnv1a(write_cluster(topology)); }

}  // namespace tutti::topology
