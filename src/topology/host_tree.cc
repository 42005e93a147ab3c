#include "src/topology/host_tree.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "src/base/host_name.h"
#include "src/topology/hwloc.h"
#include "src/topology/sysfs.h"

namespace tutti::topology {
namespace {

// Where sets are of equal size: which lies inside the other.
constexpr std::array<std::string_view, 8> kInside = {"core", "L1",  "L2",   "L3",
                                                     "L4",   "die", "numa", "package"};

size_t rank_of(std::string_view level) {
  return static_cast<size_t>(std::find(kInside.begin(), kInside.end(), level) - kInside.begin());
}

// The objects of one level: of each processor, which has it.
struct LevelSets {
  std::string level;
  std::vector<uint32_t> nodes;  // by position in the processors: the least one of the same object
  std::vector<uint64_t> bytes;  // by position of the least one
  uint32_t count = 0;
};

using Positions = std::map<uint32_t, uint32_t>;  // of processors

/// Objects of one level by their positions, rising; the bytes of those with equal ones together.
/// Objects without a processor of the host, such as memory that is near none, have no place.
std::map<std::vector<uint32_t>, uint64_t> places_of(const std::string& level,
                                                    const std::vector<HostObject>& objects,
                                                    const Positions& positions) {
  std::map<std::vector<uint32_t>, uint64_t> found;
  for (const HostObject& object : objects) {
    if (object.level != level) continue;
    std::vector<uint32_t> inside;
    for (const uint32_t number : object.processors) {
      const auto position = positions.find(number);
      if (position != positions.end()) inside.push_back(position->second);
    }
    if (!inside.empty()) found[inside] += object.bytes;
  }
  return found;
}

/// Memory may be near several sets that have nearer memory of their own: HBM beside the package's,
/// an expander of the whole host.
bool may_be_shared(std::string_view level) { return level == "numa"; }

Result<LevelSets> sets_of(const std::string& level, const std::vector<HostObject>& objects,
                          const Positions& positions, std::vector<std::string>& notes) {
  LevelSets made{level, {}, std::vector<uint64_t>(positions.size()), 0};
  for (uint32_t i = 0; i < positions.size(); ++i) made.nodes.push_back(i);
  const auto places = places_of(level, objects, positions);
  std::vector<std::pair<std::vector<uint32_t>, uint64_t>> nearest(places.begin(), places.end());
  std::stable_sort(nearest.begin(), nearest.end(),
                   [](const auto& a, const auto& b) { return a.first.size() < b.first.size(); });
  std::vector<bool> taken(positions.size());
  size_t shared = 0;
  for (auto& [inside, bytes] : nearest) {
    const size_t all = inside.size();
    std::erase_if(inside, [&](uint32_t position) { return taken[position]; });
    if (inside.size() < all && !may_be_shared(level)) {
      return Status::invalid_argument("two of them have the same processor");
    }
    if (inside.size() < all) ++shared;
    if (inside.empty()) continue;
    for (const uint32_t position : inside) {
      taken[position] = true;
      made.nodes[position] = inside.front();
    }
    made.bytes[inside.front()] = bytes;
  }
  if (shared > 0) {
    notes.push_back(level + ": " + std::to_string(shared) + (shared == 1 ? " is" : " are") +
                    " near processors that have nearer ones");
  }
  for (uint32_t i = 0; i < made.nodes.size(); ++i) made.count += made.nodes[i] == i ? 1 : 0;
  return made;
}

bool lies_inside(const LevelSets& inner, const LevelSets& outer) {
  for (uint32_t i = 0; i < inner.nodes.size(); ++i) {
    if (outer.nodes[i] != outer.nodes[inner.nodes[i]]) return false;
  }
  return true;
}

// From the outermost to the innermost.
std::vector<LevelSets> level_sets_of(const HostFacts& facts, const Positions& positions,
                                     std::vector<std::string>& notes) {
  std::vector<LevelSets> found;
  std::vector<std::string> levels;
  for (const HostObject& object : facts.objects) {
    if (std::find(levels.begin(), levels.end(), object.level) == levels.end()) {
      levels.push_back(object.level);
    }
  }
  for (const std::string& level : levels) {
    Result<LevelSets> made = sets_of(level, facts.objects, positions, notes);
    if (made.ok()) {
      found.push_back(std::move(made).value());
    } else {
      notes.push_back("left out " + level + ": " + std::string(made.status().message()));
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const LevelSets& a, const LevelSets& b) {
    return std::pair(a.count, rank_of(b.level)) < std::pair(b.count, rank_of(a.level));
  });
  std::vector<LevelSets> nested;
  for (LevelSets& sets : found) {
    if (nested.empty() || lies_inside(sets, nested.back())) {
      nested.push_back(std::move(sets));
    } else {
      notes.push_back("left out " + sets.level + ": it cuts through " + nested.back().level);
    }
  }
  return nested;
}

// `order`: positions, so that those of each node are neighbours; [first, last) are of this node.
NodeSpec node_of(const std::vector<LevelSets>& levels_inside, size_t inside,
                 const std::vector<uint32_t>& order, NumberRange range) {
  NodeSpec node;
  if (inside == levels_inside.size()) {
    node.leaves = range.size();
    return node;
  }
  const std::vector<uint32_t>& nodes = levels_inside[inside].nodes;
  for (uint32_t first = range.first; first < range.last;) {
    uint32_t last = first + 1;
    while (last < range.last && nodes[order[last]] == nodes[order[first]]) ++last;
    node.children.push_back(node_of(levels_inside, inside + 1, order, {first, last}));
    first = last;
  }
  return node;
}

std::string size_text(uint64_t bytes) {
  if (bytes >= uint64_t{10} << 30) return fmt::format("{}GB", (bytes + (1u << 29)) >> 30);
  if (bytes >= uint64_t{10} << 20) return fmt::format("{}MB", (bytes + (1u << 19)) >> 20);
  return fmt::format("{}KB", (bytes + (1u << 9)) >> 10);
}

void print_node(const HostTree& host, size_t level, uint32_t node, size_t depth,
                std::string& text) {
  const Topology& tree = host.tree;
  const uint32_t all = tree.leaves_of(level, node).size();
  text += std::string(2 * depth, ' ');
  for (;; --level) {
    text += tree.describe(level, node);
    const uint64_t bytes = host.bytes[level][node];
    if (bytes > 0) text += " (" + size_text(bytes) + ")";
    const NumberRange below = tree.children(level, node);
    if (level == 0 || below.size() > 1) break;
    node = below.first;
    text += " + ";
  }
  if (level == 0) {
    const NumberRange leaves = tree.leaves_of(0, node);
    text += all == 1 ? ", processor" : ", processors";
    for (uint32_t leaf = leaves.first; leaf < leaves.last; ++leaf) {
      text += " " + std::to_string(host.processors[leaf]);
    }
    text += "\n";
    return;
  }
  text += "\n";
  const NumberRange below = tree.children(level, node);
  for (uint32_t child = below.first; child < below.last; ++child) {
    print_node(host, level - 1, child, depth + 1, text);
  }
}

}  // namespace

Result<HostTree> make_host_tree(HostFacts facts, const std::string& host) {
  if (facts.processors.empty()) {
    return Status::system_error(facts.found_by + " finds no processors here");
  }
  std::sort(facts.processors.begin(), facts.processors.end());
  facts.processors.erase(std::unique(facts.processors.begin(), facts.processors.end()),
                         facts.processors.end());
  Positions positions;
  for (const uint32_t number : facts.processors) {
    positions.emplace(number, static_cast<uint32_t>(positions.size()));
  }
  std::vector<std::string> notes = std::move(facts.notes);
  const std::vector<LevelSets> levels_inside = level_sets_of(facts, positions, notes);
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < facts.processors.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    for (const LevelSets& sets : levels_inside) {
      if (sets.nodes[a] != sets.nodes[b]) return sets.nodes[a] < sets.nodes[b];
    }
    return a < b;
  });
  std::vector<LevelSpec> levels = {{.name = std::string(kHostLevel)}};
  for (const LevelSets& sets : levels_inside) {
    levels.insert(levels.begin(), LevelSpec{.name = sets.level});
  }
  NodeSpec root = node_of(levels_inside, 0, order, {0, static_cast<uint32_t>(order.size())});
  root.names = {host};
  Result<Topology> tree = Topology::make("", std::move(levels), root);
  if (!tree.ok()) return tree.status();
  HostTree made{std::move(tree).value(), {}, {}, facts.found_by, std::move(notes)};
  for (const uint32_t position : order) made.processors.push_back(facts.processors[position]);
  made.bytes.resize(made.tree.levels());
  for (size_t level = 0; level < made.tree.levels(); ++level) {
    for (uint32_t node = 0; node < made.tree.nodes(level); ++node) {
      const uint32_t first = order[made.tree.leaves_of(level, node).first];
      const bool is_host = level + 1 == made.tree.levels();
      const LevelSets* of = is_host ? nullptr : &levels_inside[levels_inside.size() - 1 - level];
      made.bytes[level].push_back(of == nullptr ? 0 : of->bytes[of->nodes[first]]);
    }
  }
  return made;
}

Result<HostTree> find_host_tree() {
  Result<HostFacts> facts = ask_hwloc();
  if (!facts.ok()) {
    const std::string why(facts.status().message());
    facts = read_sysfs("");
    if (!facts.ok()) return facts.status();
    facts.value().notes.push_back(why);
  }
  return make_host_tree(std::move(facts).value(), host_name());
}

std::string print_host_tree(const HostTree& host) {
  std::string text;
  print_node(host, host.tree.levels() - 1, 0, 0, text);
  return text;
}

}  // namespace tutti::topology
