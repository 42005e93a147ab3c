// How a topology is written: equal neighbours once, with their number.

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/topology/cluster_file.h"
#include "src/topology/name_range.h"

namespace tutti::topology {
namespace {

constexpr int kIndent = 2;

std::string spaces(int depth) { return std::string(static_cast<size_t>(depth * kIndent), ' '); }

std::string level_line(const LevelSpec& level) {
  std::string line = fmt::format(R"({{"name": "{}")", level.name);
  const auto add = [&](const char* key, double value) {
    if (value > 0) line += fmt::format(R"(, "{}": {})", key, value);
  };
  add("latency_us", level.latency_ns / 1000);
  add("port_GB_per_s", level.port_bytes_per_ns);
  add("oversubscription", level.oversubscription);
  add("shared_GB_per_s", level.shared_bytes_per_ns);
  return line + "}";
}

// Equal nodes, or those whose names are a row.
struct Neighbours {
  uint32_t first = 0;  // a node
  uint32_t count = 1;
};

class TreeText {
 public:
  explicit TreeText(const Topology& topology) : topology_(topology) {
    kinds_.resize(topology.levels());
    for (size_t level = 0; level < topology.levels(); ++level) {
      for (uint32_t node = 0; node < topology.nodes(level); ++node) add_kind(level, node);
    }
  }

  std::string write() const { return node_text(topology_.levels() - 1, {0, 1}, 1); }

 private:
  // A node's kind is a number: what two of one kind hold is equal, with the names inside.
  using Inside = std::vector<std::tuple<uint32_t, uint32_t, std::string>>;  // kind, count, names
  using Key = std::tuple<size_t, double, uint32_t, Inside>;

  double own_uplink(size_t level, uint32_t node) const {
    return topology_.has_own_uplink(level, node) ? topology_.uplink_bytes_per_ns(level, node) : 0;
  }

  void add_kind(size_t level, uint32_t node) {
    Inside below;
    if (level > 0) {
      for (const Neighbours& run : runs(level, node)) {
        below.emplace_back(kinds_[level - 1][run.first], run.count, names(level - 1, run));
      }
    }
    const uint32_t leaves = level == 0 ? topology_.children(0, node).size() : 0;
    const auto next = static_cast<uint32_t>(known_.size());
    Key key(level, own_uplink(level, node), leaves, std::move(below));
    kinds_[level].push_back(known_.try_emplace(std::move(key), next).first->second);
  }

  bool continues(size_t level, uint32_t node) const {
    if (kinds_[level][node] != kinds_[level][node - 1]) return false;
    const std::string_view name = topology_.node_name(level, node);
    const std::string_view before = topology_.node_name(level, node - 1);
    return name.empty() ? before.empty() : follows(before, name);
  }

  std::vector<Neighbours> runs(size_t level, uint32_t node) const {
    std::vector<Neighbours> found;
    const NumberRange below = topology_.children(level, node);
    for (uint32_t child = below.first; child < below.last; ++child) {
      if (child > below.first && continues(level - 1, child)) {
        ++found.back().count;
      } else {
        found.push_back({child, 1});
      }
    }
    return found;
  }

  std::string names(size_t level, const Neighbours& run) const {
    const std::string_view first = topology_.node_name(level, run.first);
    if (first.empty()) return "";
    return fold_names(first, topology_.node_name(level, run.first + run.count - 1));
  }

  std::string node_text(size_t level, const Neighbours& run, int depth) const {
    std::vector<std::string> fields;
    const std::string own_names = names(level, run);
    if (!own_names.empty()) fields.push_back(fmt::format(R"("name": "{}")", own_names));
    if (own_names.empty() && run.count > 1) {
      fields.push_back(fmt::format(R"("count": {})", run.count));
    }
    const double uplink = own_uplink(level, run.first);
    if (uplink > 0) fields.push_back(fmt::format(R"("uplink_GB_per_s": {})", uplink));
    if (level == 0) {
      fields.push_back(fmt::format(R"("ranks": {})", topology_.children(0, run.first).size()));
    } else {
      std::vector<std::string> children;
      for (const Neighbours& below : runs(level, run.first)) {
        children.push_back("\n" + spaces(depth + 1) + node_text(level - 1, below, depth + 1));
      }
      fields.push_back(fmt::format(R"("children": [{}])", fmt::join(children, ",")));
    }
    return fmt::format("{{{}}}", fmt::join(fields, ", "));
  }

  const Topology& topology_;
  std::map<Key, uint32_t> known_;
  std::vector<std::vector<uint32_t>> kinds_;  // [level][node]
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

// FNV-1a over the text: it guards against mistakes, not against an adversary.
uint64_t fingerprint(const Topology& topology) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char letter : write_cluster(topology)) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace tutti::topology
