#include "src/topology/topology.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace tutti::topology {
namespace {

Status refuse(int line, const std::string& why) {
  const std::string where = line > 0 ? "line " + std::to_string(line) + ": " : "";
  return Status::invalid_argument(where + why);
}

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

// Names stand in messages, pictures and files, and brackets in files mean ranges of names.
Status check_name(int line, const std::string& what, std::string_view name) {
  constexpr size_t kLongest = 255;
  if (name.empty()) return refuse(line, what + " has an empty name");
  if (name.size() > kLongest) {
    return refuse(line, what + " has a name of " + std::to_string(name.size()) +
                            " bytes; at most " + std::to_string(kLongest) + " are allowed");
  }
  const bool plain = std::none_of(name.begin(), name.end(), [](unsigned char c) {
    return c < ' ' || c == 0x7f || c == '"' || c == '\\' || c == '[' || c == ']' || c == ',';
  });
  if (plain) return {};
  return refuse(line, what +
                          " has a name with control characters, quotes, backslashes, commas or "
                          "brackets that are no range");
}

Status check_rate(const LevelSpec& level, const char* what, double value) {
  if (std::isfinite(value) && value >= 0) return {};
  return refuse(level.line, "the " + std::string(what) + " of level " + quoted(level.name) +
                                " is no number of at least 0");
}

Status check_rates(const LevelSpec& level) {
  const std::pair<const char*, double> rates[] = {
      {"latency", level.latency_ns},
      {"rate of the ports", level.port_bytes_per_ns},
      {"oversubscription", level.oversubscription},
      {"shared rate", level.shared_bytes_per_ns},
  };
  for (const auto& [what, value] : rates) {
    if (Status status = check_rate(level, what, value); !status.ok()) return status;
  }
  return {};
}

// `inner` is null for the innermost level.
Status check_above(const LevelSpec* inner, const LevelSpec& level) {
  if (inner == nullptr) return {};
  if (level.latency_ns > 0 && level.latency_ns < inner->latency_ns) {
    return refuse(level.line, "level " + quoted(level.name) + " has less latency than level " +
                                  quoted(inner->name) +
                                  " inside it: levels go from the outermost to the innermost, and "
                                  "who is nearer is not further away");
  }
  if (inner->oversubscription > 0 && level.port_bytes_per_ns > 0) {
    return refuse(level.line, "the uplinks of level " + quoted(inner->name) +
                                  " are said twice: by its oversubscription, and by the ports of "
                                  "level " +
                                  quoted(level.name));
  }
  return {};
}

Status check_node(const NodeSpec& spec, size_t level, std::string_view level_name) {
  const std::string what = "this node of level " + quoted(level_name);
  if (level == 0 && !spec.children.empty()) {
    return refuse(spec.line, what +
                                 " has children, but no level is below: a level is missing, or "
                                 "the tree is too deep");
  }
  if (level == 0 && spec.leaves == 0) return refuse(spec.line, what + " has no place for a rank");
  if (level > 0 && spec.leaves > 0) {
    return refuse(spec.line, what +
                                 " says how many ranks it holds, which only nodes of the "
                                 "innermost level do");
  }
  if (level > 0 && spec.children.empty()) {
    return refuse(spec.line, what + " has no children: every branch reaches the innermost level");
  }
  if (spec.count == 0) return refuse(spec.line, what + " has a count of 0");
  if (!spec.names.empty() && spec.names.size() != spec.count) {
    return refuse(spec.line, what + " has " + std::to_string(spec.names.size()) +
                                 " names and a count of " + std::to_string(spec.count));
  }
  if (!std::isfinite(spec.uplink_bytes_per_ns) || spec.uplink_bytes_per_ns < 0) {
    return refuse(spec.line, what + " has an uplink whose rate is no number of at least 0");
  }
  for (const std::string& name : spec.names) {
    if (Status status = check_name(spec.line, what, name); !status.ok()) return status;
  }
  return {};
}

// Which hosts have names, and where a description says so.
class HostNames {
 public:
  /// `nodes`: how many the description makes of these in all, if it repeats their parents.
  Status add(const NodeSpec& spec, uint64_t nodes) {
    int& line = spec.names.empty() ? unnamed_ : named_;
    if (line < 0) line = spec.line;
    if (unnamed_ >= 0 && named_ >= 0) {
      return refuse(spec.line, "some hosts have names and some have none: name all hosts or none");
    }
    for (const std::string& name : spec.names) {
      const auto [found, is_new] = lines_.try_emplace(name, spec.line);
      const int before = found->second;
      if (is_new && nodes == spec.count) continue;
      if (is_new) return refuse(spec.line, twice(name) + ": a node that holds it is repeated");
      return refuse(spec.line, twice(name) + (before > 0 && before != spec.line
                                                  ? ", also in line " + std::to_string(before)
                                                  : ""));
    }
    return {};
  }

 private:
  static std::string twice(std::string_view name) {
    return "two hosts have the name " + quoted(name);
  }

  std::map<std::string_view, int> lines_;
  int unnamed_ = -1;  // the first line of one; -1: there is none
  int named_ = -1;
};

class TreeCheck {
 public:
  explicit TreeCheck(const std::vector<LevelSpec>& levels) : levels_(levels) {}

  /// How many leaves these nodes have. Products are bounded before anything is made of them: a few
  /// lines may ask for more than any memory holds. `parents`: how many nodes hold such ones.
  Result<uint64_t> run(const NodeSpec& spec, size_t level, uint64_t parents) {
    if (Status status = check_node(spec, level, levels_[level].name); !status.ok()) return status;
    uint64_t leaves = spec.leaves;
    const uint64_t nodes = parents * spec.count;
    if (nodes > Topology::kMostLeaves) return too_many(spec);
    for (const NodeSpec& child : spec.children) {
      const Result<uint64_t> below = run(child, level - 1, nodes);
      if (!below.ok()) return below.status();
      leaves += below.value();
      if (leaves > Topology::kMostLeaves) return too_many(child);
    }
    leaves *= spec.count;
    if (leaves > Topology::kMostLeaves) return too_many(spec);
    if (levels_[level].name != kHostLevel) return leaves;
    if (Status status = hosts_.add(spec, nodes); !status.ok()) return status;
    return leaves;
  }

 private:
  static Status too_many(const NodeSpec& spec) {
    return refuse(spec.line, "the tree has more than " + std::to_string(Topology::kMostLeaves) +
                                 " leaves; no more are allowed");
  }

  const std::vector<LevelSpec>& levels_;
  HostNames hosts_;
};

}  // namespace

Status Topology::take_levels(std::vector<LevelSpec> levels) {
  if (levels.empty()) return refuse(0, "there are no levels");
  if (levels.size() > kMostLevels) {
    return refuse(levels.front().line, "there are " + std::to_string(levels.size()) +
                                           " levels; at most " + std::to_string(kMostLevels) +
                                           " are allowed");
  }
  bool has_host = false;
  // From the outermost, as a file says them: the first error is the first in the file.
  for (size_t i = levels.size(); i-- > 0;) {
    const LevelSpec& level = levels[i];
    if (Status status = check_name(level.line, "this level", level.name); !status.ok()) {
      return status;
    }
    for (size_t above = i + 1; above < levels.size(); ++above) {
      if (levels[above].name == level.name) {
        return refuse(level.line, "there are two levels with the name " + quoted(level.name));
      }
    }
    if (Status status = check_rates(level); !status.ok()) return status;
    if (level.name != kHostLevel) continue;
    host_level_ = i;
    has_host = true;
  }
  if (!has_host) {
    return refuse(levels.back().line,
                  "no level has the name 'host', so nobody knows which nodes "
                  "are machines with an operating system of their own");
  }
  for (size_t i = levels.size(); i-- > 0;) {
    Status status = check_above(i > 0 ? &levels[i - 1] : nullptr, levels[i]);
    if (!status.ok()) return status;
    if (levels[i].oversubscription > 0 && levels[i].port_bytes_per_ns == 0 &&
        (i == 0 || levels[i - 1].oversubscription == 0)) {
      return refuse(levels[i].line, "level " + quoted(levels[i].name) +
                                        " has an oversubscription, but its ports have no rate");
    }
  }
  if (levels.back().oversubscription > 0) {
    return refuse(levels.back().line, "level " + quoted(levels.back().name) +
                                          " is the outermost: it has no uplink that could be "
                                          "oversubscribed");
  }
  levels_ = std::move(levels);
  return {};
}

// The node number `which` of equal ones.
void Topology::add(const NodeSpec& spec, size_t level, uint32_t which) {
  const auto number = static_cast<uint32_t>(first_child_[level].size());
  const auto first_leaf = static_cast<uint32_t>(node_of_[0].size());
  if (level == 0) {
    first_child_[0].push_back(first_leaf);
    node_of_[0].insert(node_of_[0].end(), spec.leaves, number);
  } else {
    first_child_[level].push_back(static_cast<uint32_t>(first_child_[level - 1].size()));
    for (const NodeSpec& child : spec.children) {
      for (uint32_t i = 0; i < child.count; ++i) add(child, level - 1, i);
    }
    node_of_[level].insert(node_of_[level].end(), node_of_[0].size() - first_leaf, number);
  }
  // A level of whose nodes none has a name, or a rate of its own, has an empty list.
  if (!spec.names.empty()) {
    names_[level].resize(number);
    names_[level].push_back(spec.names[which]);
  }
  if (spec.uplink_bytes_per_ns > 0) {
    own_uplinks_[level].resize(number);
    own_uplinks_[level].push_back(spec.uplink_bytes_per_ns);
  }
}

void Topology::sort_hosts() {
  const std::vector<std::string>& names = names_[host_level_];
  for (uint32_t host = 0; host < names.size(); ++host) hosts_by_name_.push_back(host);
  std::sort(hosts_by_name_.begin(), hosts_by_name_.end(),
            [&](uint32_t a, uint32_t b) { return names[a] < names[b]; });
}

void Topology::set_uplinks() {
  uplinks_.resize(levels());
  for (size_t level = 0; level < levels(); ++level) {
    const double ratio = levels_[level].oversubscription;
    const bool outermost = level + 1 == levels();
    const double port = outermost ? 0 : levels_[level + 1].port_bytes_per_ns;
    for (uint32_t node = 0; node < nodes(level); ++node) {
      double rate = port;
      if (ratio > 0) {
        double ports = 0;
        const NumberRange below = children(level, node);
        for (uint32_t child = below.first; child < below.last; ++child) {
          ports += level == 0 ? levels_[0].port_bytes_per_ns : uplinks_[level - 1][child];
        }
        rate = ports / ratio;
      }
      if (has_own_uplink(level, node)) rate = own_uplinks_[level][node];
      uplinks_[level].push_back(rate);
    }
  }
}

Result<Topology> Topology::make(std::string name, std::vector<LevelSpec> levels,
                                const NodeSpec& root) {
  Topology made;
  if (!name.empty()) {
    if (Status status = check_name(0, "the topology", name); !status.ok()) return status;
  }
  made.name_ = std::move(name);
  if (Status status = made.take_levels(std::move(levels)); !status.ok()) return status;
  const size_t outermost = made.levels() - 1;
  if (root.count != 1) {
    return refuse(root.line, "the outermost level has " + std::to_string(root.count) +
                                 " nodes; it has one, which connects all that is inside");
  }
  const Result<uint64_t> leaves = TreeCheck(made.levels_).run(root, outermost, 1);
  if (!leaves.ok()) return leaves.status();
  if (root.uplink_bytes_per_ns > 0) {
    return refuse(root.line, "the outermost node has an uplink, but nothing is above it");
  }
  made.first_child_.resize(made.levels());
  made.node_of_.resize(made.levels());
  made.names_.resize(made.levels());
  made.own_uplinks_.resize(made.levels());
  made.add(root, outermost, 0);
  for (size_t level = 0; level < made.levels(); ++level) {
    const size_t nodes = made.first_child_[level].size();
    made.first_child_[level].push_back(level == 0 ? made.leaves() : made.nodes(level - 1));
    if (!made.names_[level].empty()) made.names_[level].resize(nodes);
    if (!made.own_uplinks_[level].empty()) made.own_uplinks_[level].resize(nodes);
  }
  made.sort_hosts();
  made.set_uplinks();
  return made;
}

NumberRange Topology::leaves_of(size_t level, uint32_t node) const {
  NumberRange range = children(level, node);
  while (level-- > 0) {
    range = {first_child_[level][range.first], first_child_[level][range.last]};
  }
  return range;
}

std::string_view Topology::node_name(size_t level, uint32_t node) const {
  return names_[level].empty() ? std::string_view() : names_[level][node];
}

std::optional<uint32_t> Topology::find_host(std::string_view name) const {
  const auto found = std::lower_bound(
      hosts_by_name_.begin(), hosts_by_name_.end(), name,
      [&](uint32_t host, std::string_view wanted) { return names_[host_level_][host] < wanted; });
  if (found == hosts_by_name_.end() || names_[host_level_][*found] != name) return std::nullopt;
  return *found;
}

std::string Topology::describe(size_t level, uint32_t node) const {
  const std::string_view own = node_name(level, node);
  return levels_[level].name + " " + (own.empty() ? std::to_string(node) : quoted(own));
}

bool Topology::has_own_uplink(size_t level, uint32_t node) const {
  return !own_uplinks_[level].empty() && own_uplinks_[level][node] > 0;
}

bool Topology::operator==(const Topology& other) const {
  const auto equal_levels = [](const LevelSpec& a, const LevelSpec& b) {
    return a.name == b.name && a.latency_ns == b.latency_ns &&
           a.port_bytes_per_ns == b.port_bytes_per_ns && a.oversubscription == b.oversubscription &&
           a.shared_bytes_per_ns == b.shared_bytes_per_ns;
  };
  return name_ == other.name_ &&
         std::equal(levels_.begin(), levels_.end(), other.levels_.begin(), other.levels_.end(),
                    equal_levels) &&
         first_child_ == other.first_child_ && names_ == other.names_ &&
         uplinks_ == other.uplinks_ && own_uplinks_ == other.own_uplinks_;
}

}  // namespace tutti::topology
