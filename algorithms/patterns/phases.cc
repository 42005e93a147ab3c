#include "algorithms/patterns/phases.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tutti::algorithms::patterns {

using namespace schedule;

namespace {

// How often a child sends, or receives, the block of another in one exchange.
struct Transfers {
  std::vector<std::vector<uint32_t>> sent, received;  // [child][block]
};

Transfers transfers_of(const Algorithm& algorithm, const Parameters& p) {
  const auto children = static_cast<uint32_t>(p.ranks);
  Transfers result;
  for (uint32_t child = 0; child < children; ++child) {
    auto& sent = result.sent.emplace_back(children, 0);
    auto& received = result.received.emplace_back(children, 0);
    const Schedule schedule = algorithm.schedule(p, static_cast<int>(child));
    for (const Step& step : schedule.steps) {
      uint32_t arriving = 0;
      if (step.kind == StepKind::kMove) {
        for (const Source source : schedule.sources_of(step)) arriving += source.is_message();
      }
      for (const Block block : schedule.blocks_of(step)) {
        for (const uint32_t part : parts_of(algorithm, schedule, block, child, children)) {
          if (step.kind == StepKind::kSend) sent[part] += step.operand_count;
          received[part] += arriving;
        }
      }
    }
  }
  return result;
}

// Runs the phases on a clock for each rank, which a phase moves on at its nodes.
template <class Count>
uint32_t run_clocks(const std::vector<Phase>& phases, const NodeTree& tree, int root, Count count) {
  std::vector<uint32_t> clocks(static_cast<size_t>(tree.ranks()), 0);
  for (const Phase& phase : phases) {
    for (uint32_t node = 0; node < tree.nodes(phase.level); ++node) {
      const Parameters p = phase.parameters(tree, node, root, Fold::kList);
      if (p.ranks == 1 || !phase.includes(tree, node, root)) continue;
      uint32_t clock = 0;
      for (const int rank : tree.ranks_of(phase.level, node)) {
        clock = std::max(clock, clocks[static_cast<size_t>(rank)]);
      }
      if (count(phase)) clock += phase.algorithm.cost(p).depth;
      for (const int rank : tree.ranks_of(phase.level, node)) {
        clocks[static_cast<size_t>(rank)] = clock;
      }
    }
  }
  return *std::max_element(clocks.begin(), clocks.end());
}

struct Sums {
  std::vector<std::vector<uint64_t>> out, in;  // [level][rank]
};

// Messages of a level cross the cuts of all nodes below it that hold one of their ends.
std::vector<std::vector<CutLoad>> add_up(const Sums& sums, const Shares& shares) {
  const NodeTree& tree = shares.tree();
  std::vector<std::vector<CutLoad>> all;
  for (size_t level = 0; level < tree.levels(); ++level) {
    std::vector<CutLoad>& cuts = all.emplace_back();
    for (uint32_t node = 0; node < tree.nodes(level); ++node) {
      uint64_t out = 0, in = 0;
      for (const int rank : tree.ranks_of(level, node)) {
        for (size_t above = level + 1; above < tree.levels(); ++above) {
          out += sums.out[above][static_cast<size_t>(rank)];
          in += sums.in[above][static_cast<size_t>(rank)];
        }
      }
      cuts.push_back({Fraction::of(out, shares.units()), Fraction::of(in, shares.units())});
    }
  }
  return all;
}

}  // namespace

Parameters Phase::parameters(const NodeTree& tree, uint32_t node, int root, Fold fold) const {
  const int child = at == At::kAboveRoot ? static_cast<int>(tree.child_of(level, root)) : 0;
  return {.ranks = static_cast<int>(tree.children_of(level, node).size()),
          .root = child,
          .lanes = 1,
          .fold = fold};
}

std::vector<uint32_t> parts_of(const Algorithm& algorithm, const Schedule& schedule, Block block,
                               uint32_t child, uint32_t children) {
  const Traits& traits = traits_of(algorithm.collective);
  if (block.space() == Space::kScratch) block = schedule.scratch[block.index()];
  const BufferShape& buffer = block.space() == Space::kInput ? traits.input : traits.output;
  if (buffer.parts) return {block.index()};
  if (traits.input.parts || traits.output.parts) return {child};
  std::vector<uint32_t> all;
  for (uint32_t part = 0; part < children; ++part) all.push_back(part);
  return all;
}

Depths depths_of(const std::vector<Phase>& phases, const NodeTree& tree, int root) {
  Depths depths;
  depths.all = run_clocks(phases, tree, root, [](const Phase&) { return true; });
  for (size_t level = 0; level < tree.levels(); ++level) {
    depths.by_level.push_back(run_clocks(
        phases, tree, root, [level](const Phase& phase) { return phase.level == level; }));
  }
  return depths;
}

std::vector<std::vector<CutLoad>> cuts_of(const std::vector<Phase>& phases, const Shares& shares,
                                          int root) {
  const NodeTree& tree = shares.tree();
  const std::vector<uint64_t> nothing(static_cast<size_t>(tree.ranks()), 0);
  Sums sums{{tree.levels(), nothing}, {tree.levels(), nothing}};
  std::map<std::tuple<size_t, int, int>, Transfers> known;  // by phase, children and root
  shares.visit_holdings([&](const Holding& holding) {
    const uint32_t node = tree.node_of(holding.level, holding.rank);
    for (size_t i = 0; i < phases.size(); ++i) {
      const Phase& phase = phases[i];
      if (phase.level != holding.level || !phase.includes(tree, node, root)) continue;
      const Parameters p = phase.parameters(tree, node, root, Fold::kList);
      if (p.ranks == 1) continue;
      auto [found, is_new] = known.try_emplace({i, p.ranks, p.root});
      if (is_new) found->second = transfers_of(phase.algorithm, p);
      const auto rank = static_cast<size_t>(holding.rank);
      sums.out[phase.level][rank] +=
          holding.width * found->second.sent[holding.child][holding.block];
      sums.in[phase.level][rank] +=
          holding.width * found->second.received[holding.child][holding.block];
    }
  });
  return add_up(sums, shares);
}

}  // namespace tutti::algorithms::patterns
