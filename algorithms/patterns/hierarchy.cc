#include "algorithms/patterns/hierarchy.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/patterns/phases.h"
#include "algorithms/patterns/shape.h"
#include "algorithms/patterns/shares.h"
#include "algorithms/patterns/siblings.h"
#include "algorithms/patterns/tally.h"
#include "algorithms/patterns/weave.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::patterns {

using namespace schedule;

namespace {

Shares shares_of(Collective collective, const Parameters& p) {
  const Traits& traits = traits_of(collective);
  return traits.input.parts || traits.output.parts ? Shares::parts(tree_of(p))
                                                   : Shares::equal(tree_of(p));
}

Shape shape_over(Collective collective, const Parameters& p, const Shares& shares) {
  Parameters whole = p;  // lanes do not cut it
  whole.lanes = 1;
  Shape shape;
  if (collective == Collective::kAllGather) {
    shape = shape_of<Collective::kAllGather>(whole);
  } else if (collective == Collective::kReduceScatter) {
    shape = shape_of<Collective::kReduceScatter>(whole);
  } else {
    const Partition cut = shares.partition();
    shape = {.collective = collective,
             .ranks = p.ranks,
             .root = p.root,
             .lanes = 1,
             .input = cut,
             .output = cut};
  }
  shape.lanes = p.lanes;
  return shape;
}

// Outwards along the root's nodes, then inwards in the others.
std::vector<Phase> broadcast_phases(const Levels& levels, size_t count) {
  std::vector<Phase> phases;
  for (size_t level = 0; level < count; ++level) {
    phases.push_back({level, levels.broadcast(), At::kAboveRoot});
  }
  for (size_t level = count - 1; level-- > 0;) {
    phases.push_back({level, levels.all_gather(), At::kBesideRoot});
  }
  return phases;
}

std::vector<Phase> reduce_phases(const Levels& levels, size_t count) {
  std::vector<Phase> phases;
  for (size_t level = 0; level + 1 < count; ++level) {
    phases.push_back({level, levels.reduce_scatter(), At::kBesideRoot});
  }
  for (size_t level = count; level-- > 0;) {
    phases.push_back({level, levels.reduce(), At::kAboveRoot});
  }
  return phases;
}

// From the innermost level outwards to fold, then back inwards to collect.
std::vector<Phase> phases_of(Collective collective, const Levels& levels, const NodeTree& tree) {
  if (collective == Collective::kBroadcast) return broadcast_phases(levels, tree.levels());
  if (collective == Collective::kReduce) return reduce_phases(levels, tree.levels());
  const bool folds = collective != Collective::kAllGather;
  const bool collects = collective != Collective::kReduceScatter;
  const bool has_middle = folds && collects && levels.all_reduce != nullptr;
  const size_t top = tree.levels() - 1, count = has_middle ? top : top + 1;
  std::vector<Phase> phases;
  for (size_t level = 0; folds && level < count; ++level) {
    phases.push_back({level, levels.reduce_scatter(), At::kAllNodes});
  }
  if (has_middle) phases.push_back({top, levels.all_reduce(), At::kAllNodes});
  for (size_t level = count; collects && level-- > 0;) {
    phases.push_back({level, levels.all_gather(), At::kAllNodes});
  }
  return phases;
}

// The lane of each phase. The joints of the innermost levels are cut first; at equal levels those
// of the way outwards.
std::vector<uint16_t> lanes_of(const std::vector<Phase>& phases, uint16_t lanes) {
  std::vector<size_t> joints;  // behind phase i
  for (size_t i = 0; i + 1 < phases.size(); ++i) joints.push_back(i);
  std::stable_sort(joints.begin(), joints.end(), [&](size_t a, size_t b) {
    const auto level = [&](size_t i) { return std::min(phases[i].level, phases[i + 1].level); };
    return level(a) < level(b);
  });
  joints.resize(std::min<size_t>(joints.size(), lanes - 1u));
  std::vector<uint16_t> result(phases.size(), 0);
  for (const size_t joint : joints) {
    for (size_t i = joint + 1; i < phases.size(); ++i) ++result[i];
  }
  return result;
}

// The steps of a rank come one after the other, as if they were in one lane.
void join_lanes(Schedule& schedule) {
  for (uint32_t i = 1; i < schedule.steps.size(); ++i) {
    Step& step = schedule.steps[i];
    if (step.lane == schedule.steps[i - 1].lane) continue;
    step.after_count = 1;
    step.afters = static_cast<uint32_t>(schedule.words.size());
    schedule.words.push_back(i - 1);
  }
}

// Where a rank's values are at first, and where they go.
Weaver weaver_of(Builder& builder, const Shape& shape, int rank) {
  const Traits traits = traits_of(shape.collective);
  const bool has_input = traits.input.held_by(rank, shape.root);
  const bool has_output = traits.output.held_by(rank, shape.root);
  const auto me = static_cast<uint32_t>(rank);
  std::vector<Block> values;
  for (uint32_t i = 0; i < std::max(shape.input.blocks, shape.output.blocks); ++i) {
    const bool is_part = traits.nests(Space::kInput);  // of which a rank has its own
    const Block first = is_part ? input(0) : input(i);
    values.push_back(has_input && (!is_part || i == me) ? first : output(i));
  }
  return {builder, std::move(values), [&builder, traits, has_output, me](uint32_t block) {
            if (!has_output) return builder.scratch(input(block));
            if (!traits.nests(Space::kOutput)) return output(block);
            return block == me ? output(0) : builder.scratch(input(block));
          }};
}

// Moves that no exchange made: of a rank's own share, and where there is one rank.
void finish(Builder& builder, const Shape& shape, const Weaver& weaver, int rank) {
  const Traits& traits = traits_of(shape.collective);
  if (!traits.output.held_by(rank, shape.root)) return;
  const bool is_part = traits.nests(Space::kOutput);
  std::vector<Block> targets, sources;
  for (uint32_t block = 0; block < weaver.values().size(); ++block) {
    if (weaver.values()[block].space() != Space::kInput) continue;
    if (is_part && static_cast<int>(block) != rank) continue;
    sources.push_back(weaver.values()[block]);
    targets.push_back(output(is_part ? 0 : block));
  }
  if (sources.empty()) return;
  const MoveSource operands[] = {MoveSource::local(sources)};
  builder.move(targets, operands);
}

bool is_run(const NodeTree& tree, size_t level, uint32_t child) {
  if (level == 0) return true;
  const auto ranks = tree.ranks_of(level - 1, child);
  return std::is_sorted(ranks.begin(), ranks.end()) &&
         ranks.back() - ranks.front() + 1 == static_cast<int>(ranks.size());
}

// The children of a node are aligned runs of one power of two of ranks; the last may be smaller.
bool is_aligned(const NodeTree& tree, size_t level, uint32_t node) {
  const auto children = tree.children_of(level, node);
  if (children.size() == 1) return true;
  const auto size_of = [&](uint32_t child) {
    return level == 0 ? 1 : static_cast<int>(tree.ranks_of(level - 1, child).size());
  };
  const int size = size_of(children[0]);
  if ((size & (size - 1)) != 0 || tree.ranks_of(level, node)[0] % size != 0) return false;
  for (size_t i = 0; i < children.size(); ++i) {
    const int own = size_of(children[i]);
    const bool is_last = i + 1 == children.size();
    if (!is_run(tree, level, children[i]) || own > size || (own < size && !is_last)) return false;
  }
  const auto ranks = tree.ranks_of(level, node);
  return std::is_sorted(ranks.begin(), ranks.end()) &&
         ranks.back() - ranks.front() + 1 == static_cast<int>(ranks.size());
}

bool is_symmetric(Collective collective, const Shares& shares) {
  return shares.regular() && !traits_of(collective).rooted();
}

std::vector<Schedule> schedules_of(Collective collective, const Levels& levels,
                                   const Parameters& p) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < p.ranks; ++rank) {
    schedules.push_back(hierarchical_schedule(collective, levels, p, rank));
  }
  return schedules;
}

Cost count_cost(Collective collective, const Levels& levels, const Parameters& p) {
  const Shares shares = shares_of(collective, p);
  const NodeTree& tree = shares.tree();
  const Shape shape = shape_over(collective, p, shares);
  Tally tally(shape, shares.units());
  if (is_symmetric(collective, shares)) {
    const auto tops = tree.children_of(tree.levels() - 1, 0);
    const auto alike = static_cast<uint32_t>(p.ranks) / static_cast<uint32_t>(tops.size());
    for (const uint32_t child : tops) {
      const int first =
          tree.levels() == 1 ? static_cast<int>(child) : tree.ranks_of(tree.levels() - 2, child)[0];
      tally.add(hierarchical_schedule(collective, levels, p, first), alike);
    }
    return tally.cost(depths_of(phases_of(collective, levels, tree), tree, p.root).all);
  }
  std::vector<Schedule> schedules = schedules_of(collective, levels, p);
  for (const Schedule& schedule : schedules) tally.add(schedule, 1);
  return tally.cost(count_depths(shape, std::move(schedules), *NodeTree::flat(p.ranks))[0]);
}

// Of an uneven tree the schedules of all ranks are counted, and whoever lowers plans of many ranks
// asks for the same cost again and again. Threads: any.
class LastCost {
 public:
  std::optional<Cost> find(Collective collective, const Levels& levels, const Parameters& p) {
    const std::lock_guard lock(mutex_);
    const bool same = collective_ == collective && levels_ == &levels && ranks_ == p.ranks &&
                      root_ == p.root && lanes_ == p.lanes && fold_ == p.fold &&
                      p.tree != nullptr && tree_.lock() == p.tree;
    return same ? std::optional(cost_) : std::nullopt;
  }
  void keep(Collective collective, const Levels& levels, const Parameters& p, const Cost& cost) {
    const std::lock_guard lock(mutex_);
    collective_ = collective;
    levels_ = &levels;
    ranks_ = p.ranks;
    root_ = p.root;
    lanes_ = p.lanes;
    fold_ = p.fold;
    tree_ = p.tree;
    cost_ = cost;
  }

 private:
  std::mutex mutex_;
  Collective collective_ = Collective::kBarrier;
  const Levels* levels_ = nullptr;
  int ranks_ = 0, root_ = 0;
  uint16_t lanes_ = 0;
  Fold fold_ = Fold::kList;
  std::weak_ptr<const NodeTree> tree_;
  Cost cost_;
};

}  // namespace

Shape hierarchical_shape(Collective collective, const Parameters& p) {
  return shape_over(collective, p, shares_of(collective, p));
}

Schedule hierarchical_schedule(Collective collective, const Levels& levels, const Parameters& p,
                               int rank) {
  const Shares shares = shares_of(collective, p);
  const std::vector<Teams> teams = shares.teams_of(rank);
  Builder builder(rank);
  const Shape shape = shape_over(collective, p, shares);
  Weaver weaver = weaver_of(builder, shape, rank);
  const std::vector<Phase> phases = phases_of(collective, levels, shares.tree());
  const std::vector<uint16_t> lanes = lanes_of(phases, p.lanes);
  for (size_t i = 0; i < phases.size(); ++i) {
    const Phase& phase = phases[i];
    const uint32_t node = shares.tree().node_of(phase.level, rank);
    builder.lane(lanes[i]);
    if (!phase.includes(shares.tree(), node, p.root)) continue;
    weaver.run(phase, teams[phase.level], phase.parameters(shares.tree(), node, p.root, p.fold));
  }
  finish(builder, shape, weaver, rank);
  Schedule schedule = std::move(builder).finish();
  join_lanes(schedule);
  return schedule;
}

std::vector<size_t> hierarchical_lane_levels(Collective collective, const Levels& levels,
                                             const Parameters& p) {
  const std::vector<Phase> phases = phases_of(collective, levels, *tree_of(p));
  const std::vector<uint16_t> lanes = lanes_of(phases, p.lanes);
  std::vector<size_t> innermost(lanes.back() + 1u, ~size_t{0});
  for (size_t i = 0; i < phases.size(); ++i) {
    innermost[lanes[i]] = std::min(innermost[lanes[i]], phases[i].level);
  }
  return innermost;
}

Cost hierarchical_cost(Collective collective, const Levels& levels, const Parameters& p) {
  static LastCost last;  // tidy: allow mutable (a memo of a pure function)
  Parameters whole = p;  // lanes change nothing
  whole.lanes = 1;
  if (const auto known = last.find(collective, levels, whole)) return *known;
  const Cost cost = count_cost(collective, levels, whole);
  last.keep(collective, levels, whole, cost);
  return cost;
}

LevelLoads hierarchical_loads(Collective collective, const Levels& levels, const Parameters& p) {
  const Shares shares = shares_of(collective, p);
  const std::vector<Phase> phases = phases_of(collective, levels, shares.tree());
  LevelLoads loads{{}, cuts_of(phases, shares, p.root)};
  loads.depth = shares.regular() ? depths_of(phases, shares.tree(), p.root).by_level
                                 : count_depths(hierarchical_shape(collective, p),
                                                schedules_of(collective, levels, p), shares.tree());
  return loads;
}

bool hierarchical_canonical(Collective collective, const Levels& levels, const Parameters& p) {
  if (!reduces(collective)) return false;
  const NodeTreePointer tree = tree_of(p);
  // Where there is a root, sums of other nodes arrive before the own node has its sum.
  if (traits_of(collective).rooted() && tree->levels() > 1) return false;
  for (const Phase& phase : phases_of(collective, levels, *tree)) {
    if (!reduces(phase.algorithm.collective)) continue;
    for (uint32_t node = 0; node < tree->nodes(phase.level); ++node) {
      const Parameters below = phase.parameters(*tree, node, p.root, p.fold);
      if (below.ranks == 1) continue;
      if (!is_aligned(*tree, phase.level, node)) return false;
      if (!phase.algorithm.canonical(below)) return false;
    }
  }
  return true;
}

}  // namespace tutti::algorithms::patterns
