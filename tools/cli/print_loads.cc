#include "tools/cli/print_loads.h"

#include <fmt/core.h>

#include <vector>

#include "src/schedule/text.h"
#include "src/schedule/verify.h"
#include "src/select/tree_of.h"
#include "src/sim/cluster.h"
#include "src/topology/cluster_file.h"
#include "tools/cli/arguments.h"
#include "tools/cli/verify_sweep.h"

namespace tutti::cli {
namespace {

bool is_level(const schedule::NodeTree& tree, size_t level, const group::GroupView& group,
              size_t of_group) {
  for (int rank = 0; rank < tree.ranks(); ++rank) {
    if (tree.node_of(level, rank) != group.node_of(of_group, rank)) return false;
  }
  return true;
}

// A tree leaves out the levels that join nothing: each of its own is the innermost of the group's
// with the same nodes.
std::vector<std::string> names_of(const schedule::NodeTree& tree, const group::GroupView& group) {
  std::vector<std::string> names;
  for (size_t i = 0; i < group.levels() && names.size() < tree.levels(); ++i) {
    if (is_level(tree, names.size(), group, i)) names.push_back(group.level(i).name);
  }
  return names;
}

Result<schedule::LevelLoads> counted(const schedule::Algorithm& algorithm,
                                     const schedule::Parameters& parameters,
                                     const schedule::NodeTree& tree) {
  const schedule::ScheduleSet set = generate(algorithm, parameters);
  schedule::VerifyOptions options;
  options.tree = &tree;
  options.hazards = false;
  const Result<schedule::Verdict> verdict = schedule::verify(set.shape, set.schedules, options);
  if (!verdict.ok()) return verdict.status();
  return verdict.value().loads;
}

}  // namespace

Result<ClusterRanks> ranks_of(const std::string& cluster_file) {
  const auto topology = topology::read_cluster_file(cluster_file);
  if (!topology.ok()) return topology.status();
  const auto network = sim::network_of(topology.value());
  if (!network.ok()) return network.status();
  const group::GroupView& group = *network.value().group();
  ClusterRanks found{select::tree_of(group), {}};
  found.names = names_of(*found.tree, group);
  return found;
}

Result<std::string> loads_text(const schedule::Algorithm& algorithm,
                               const schedule::Parameters& parameters,
                               const ClusterRanks& cluster) {
  schedule::LevelLoads loads;
  if (algorithm.loads != nullptr) {
    loads = algorithm.loads(parameters);
  } else {
    Result<schedule::LevelLoads> found = counted(algorithm, parameters, *cluster.tree);
    if (!found.ok()) return found.status();
    loads = std::move(found).value();
  }
  std::string text =
      fmt::format("# {} of {} ranks, {}: in units of one count\n", full_name(algorithm),
                  parameters.ranks, algorithm.loads != nullptr ? "declared" : "counted");
  for (size_t level = loads.depth.size(); level-- > 0;) {
    text += fmt::format("{}: depth {}\n", cluster.names[level], loads.depth[level]);
    const bool is_all = level + 1 == loads.depth.size();
    for (size_t node = 0; !is_all && node < loads.cuts[level].size(); ++node) {
      const schedule::CutLoad& cut = loads.cuts[level][node];
      text += fmt::format("  {} {}: out {}, in {}\n", cluster.names[level], node,
                          schedule::print(cut.out), schedule::print(cut.in));
    }
  }
  return text;
}

}  // namespace tutti::cli
