#include "src/topology/cluster_file.h"

#include <utility>

#include "src/topology/json_fields.h"
#include "src/topology/name_range.h"
#include "src/topology/text_file.h"

namespace tutti::topology {
namespace {

using Type = JsonValue::Type;

// A rate in bytes or bits: "port" is said as "port_GB_per_s" or "port_Gbit_per_s".
Status take_rate(const JsonValue& object, const std::string& what, double& bytes_per_ns) {
  const std::string in_bytes = what + "_GB_per_s", in_bits = what + "_Gbit_per_s";
  const JsonValue* twice = object.find(in_bits);
  if (twice != nullptr && object.find(in_bytes) != nullptr) {
    return refuse(*twice, quoted(in_bits) + " and " + quoted(in_bytes) + " say the same");
  }
  if (Status status = take_positive(object, in_bytes, 1, bytes_per_ns); !status.ok()) return status;
  return take_positive(object, in_bits, 1.0 / 8, bytes_per_ns);
}

Result<LevelSpec> read_level(const JsonValue& value) {
  Status status = expect_fields(value, "a level",
                                {"name", "latency_us", "port_GB_per_s", "port_Gbit_per_s",
                                 "oversubscription", "shared_GB_per_s", "shared_Gbit_per_s"});
  if (!status.ok()) return status;
  LevelSpec level;
  level.line = value.line;
  if (value.find("name") == nullptr) return refuse(value, "a level has no 'name'");
  status = take_text(value, "name", level.name);
  if (status.ok()) status = take_positive(value, "latency_us", 1000, level.latency_ns);
  if (status.ok()) status = take_rate(value, "port", level.port_bytes_per_ns);
  if (status.ok()) status = take_positive(value, "oversubscription", 1, level.oversubscription);
  if (status.ok()) status = take_rate(value, "shared", level.shared_bytes_per_ns);
  if (!status.ok()) return status;
  return level;
}

// From the outermost in the file, from the innermost in the value.
Result<std::vector<LevelSpec>> read_levels(const JsonValue& value) {
  if (Status status = expect(value, Type::kArray, "'levels'"); !status.ok()) return status;
  if (value.items.empty()) return refuse(value, "'levels' is empty");
  std::vector<LevelSpec> levels;
  for (const JsonValue& item : value.items) {
    Result<LevelSpec> level = read_level(item);
    if (!level.ok()) return level.status();
    levels.insert(levels.begin(), std::move(level).value());
  }
  return levels;
}

Status take_names(const JsonValue& value, NodeSpec& node) {
  const JsonValue* name = value.find("name");
  if (name == nullptr) return {};
  if (Status status = expect(*name, Type::kString, "'name'"); !status.ok()) return status;
  Result<std::vector<std::string>> names = expand_names(name->text, Topology::kMostLeaves);
  if (!names.ok()) return refuse(*name, std::string(names.status().message()));
  node.names = std::move(names).value();
  if (value.find("count") == nullptr) node.count = static_cast<uint32_t>(node.names.size());
  return {};
}

// `levels_below`: of this node in the tree. How deep it lies is bounded by the parser.
Result<NodeSpec> read_node(const JsonValue& value, size_t levels_below) {
  Status status =
      expect_fields(value, "a node of the tree",
                    {"name", "count", "uplink_GB_per_s", "uplink_Gbit_per_s", "ranks", "children"});
  if (!status.ok()) return status;
  NodeSpec node;
  node.line = value.line;
  status = take_number(value, "count", node.count);
  if (status.ok()) status = take_names(value, node);
  if (status.ok()) status = take_rate(value, "uplink", node.uplink_bytes_per_ns);
  if (status.ok()) status = take_number(value, "ranks", node.leaves);
  if (!status.ok()) return status;
  if (levels_below == 0 && node.leaves == 0) node.leaves = 1;
  const JsonValue* children = value.find("children");
  if (children == nullptr) return node;
  if (status = expect(*children, Type::kArray, "'children'"); !status.ok()) return status;
  for (const JsonValue& item : children->items) {
    Result<NodeSpec> child = read_node(item, levels_below == 0 ? 0 : levels_below - 1);
    if (!child.ok()) return child.status();
    node.children.push_back(std::move(child).value());
  }
  return node;
}

Status check_format(const JsonValue& file) {
  const JsonValue* format = file.find("tutti_topology");
  if (format == nullptr) {
    return refuse(file, "there is no 'tutti_topology' with the number of the format (" +
                            std::to_string(kClusterFormat) + "): this is no cluster file");
  }
  if (Status status = expect(*format, Type::kNumber, "'tutti_topology'"); !status.ok()) {
    return status;
  }
  if (format->number == kClusterFormat) return {};
  return refuse(*format, "the file has another format than " + std::to_string(kClusterFormat) +
                             ", which is all that this version of Tutti reads");
}

Result<Topology> topology_of(std::string_view text) {
  const Result<JsonValue> parsed = parse_json(text);
  if (!parsed.ok()) return parsed.status();
  const JsonValue& file = parsed.value();
  Status status = expect(file, Type::kObject, "the file");
  if (status.ok()) status = check_format(file);
  if (status.ok()) {
    status = expect_fields(file, "the file", {"tutti_topology", "name", "levels", "tree"});
  }
  std::string name;
  if (status.ok()) status = take_text(file, "name", name);
  if (!status.ok()) return status;
  for (const char* needed : {"levels", "tree"}) {
    if (file.find(needed) == nullptr) return refuse(file, "there is no " + quoted(needed));
  }
  Result<std::vector<LevelSpec>> levels = read_levels(*file.find("levels"));
  if (!levels.ok()) return levels.status();
  const Result<NodeSpec> root = read_node(*file.find("tree"), levels.value().size() - 1);
  if (!root.ok()) return root.status();
  return Topology::make(std::move(name), std::move(levels).value(), root.value());
}

}  // namespace

Result<Topology> parse_cluster(std::string_view text, const std::string& file) {
  Result<Topology> made = topology_of(text);
  if (made.ok()) return made;
  return in_file(made.status(), file);
}

Result<Topology> read_cluster_file(const std::string& path) {
  const Result<std::string> text = read_text_file(path);
  if (!text.ok()) return text.status();
  return parse_cluster(text.value(), path);
}

}  // namespace tutti::topology
