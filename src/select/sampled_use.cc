#include "src/select/sampled_use.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "src/base/prng.h"
#include "src/select/busiest.h"

namespace tutti::select {

using schedule::RankTraffic;

namespace {

constexpr size_t kStandFor = 3;  // ranks that stand for those of a node that are like each other

schedule::Fraction fraction_of(double value) {
  constexpr uint64_t kUnit = uint64_t{1} << 20;
  return schedule::Fraction::of(static_cast<uint64_t>(std::llround(value * kUnit)), kUnit);
}

}  // namespace

SampledUse::SampledUse(const schedule::Algorithm& algorithm, const schedule::Parameters& parameters,
                       const schedule::Shape& shape, const schedule::NodeTree& tree)
    : algorithm_(algorithm),
      parameters_(parameters),
      tree_(tree),
      widths_(shape),
      map_{tree.levels(), [&tree](int a, int b) { return tree.common_level(a, b); },
           [](int) { return 0u; }},
      composed_(algorithm.loads != nullptr),
      rooted_(schedule::traits_of(algorithm.collective).rooted()),
      nodes_(tree.levels()) {}

const SampledUse::SampledRank& SampledUse::look_at(int rank) {
  const auto [found, is_new] = ranks_.try_emplace(rank);
  SampledRank& made = found->second;
  if (!is_new) return made;
  const schedule::Schedule schedule = algorithm_.schedule(parameters_, rank);
  made.traffic = schedule::traffic_of(schedule, rank, widths_, map_);
  made.scratch = widths_.of(schedule, schedule.scratch);
  for (const schedule::Step& step : schedule.steps) {
    if (step.kind == schedule::StepKind::kSend) {
      made.published += widths_.of(schedule, schedule.blocks_of(step));
    } else {
      made.widest = std::max(made.widest, step.operand_count);
    }
  }
  return made;
}

std::vector<SampledUse::Weighed> SampledUse::sample_of(size_t level, uint32_t node) const {
  const auto ranks = tree_.ranks_of(level, node);
  std::set<int> own;
  own.insert(ranks.front());
  if (!composed_) own.insert(ranks.back());
  if (rooted_ && tree_.node_of(level, parameters_.root) == node) own.insert(parameters_.root);
  const size_t drawn = composed_ ? 1 : kStandFor;
  std::vector<Weighed> sample;
  for (const int rank : own) sample.push_back({rank, 1});
  std::vector<int> others;
  for (const int rank : ranks) {
    if (!own.contains(rank)) others.push_back(rank);
  }
  const size_t count = std::min(drawn, others.size());
  Prng random(node);
  for (size_t i = 0; i < count; ++i) {
    std::swap(others[i], others[i + random() % (others.size() - i)]);
    sample.push_back({others[i], static_cast<double>(others.size()) / static_cast<double>(count)});
  }
  return sample;
}

std::vector<uint32_t> SampledUse::nodes_of(size_t level, const std::vector<double>& uplinks) const {
  std::set<uint32_t> nodes = {0, tree_.nodes(level) - 1};
  if (rooted_) nodes.insert(tree_.node_of(level, parameters_.root));
  if (!uplinks.empty()) {
    const auto slowest = std::max_element(uplinks.begin(), uplinks.end());
    nodes.insert(static_cast<uint32_t>(slowest - uplinks.begin()));
  }
  return {nodes.begin(), nodes.end()};
}

SampledUse::NodeSums SampledUse::add_up(size_t level, uint32_t node) {
  NodeSums sums;
  for (const Weighed& one : sample_of(level, node)) {
    const std::vector<RankTraffic>& traffic = look_at(one.rank).traffic;
    sums.own_messages += one.weight * traffic[level].sent;
    sums.own_moved += one.weight * (traffic[level].published + traffic[level].bytes_received);
    for (size_t above = level + 1; above < traffic.size(); ++above) {
      if (above == level + 1) sums.messages += one.weight * traffic[above].sent;
      sums.out += one.weight * traffic[above].bytes_sent;
      sums.in += one.weight * traffic[above].bytes_received;
    }
  }
  return sums;
}

void SampledUse::look_at_nodes(const std::vector<PricedLevel>& priced) {
  const std::vector<double> none;
  for (size_t level = 0; level < tree_.levels(); ++level) {
    const bool is_last = level + 1 == tree_.levels();
    for (const uint32_t node : nodes_of(level, is_last ? none : priced[level + 1].uplinks)) {
      nodes_[level].try_emplace(node, add_up(level, node));
    }
  }
}

schedule::Cost SampledUse::cost() {
  for (const int rank : {0, parameters_.ranks - 1, parameters_.root}) look_at(rank);
  schedule::Cost cost;
  double bytes = 0, published = 0, moved = 0, scratch = 0;
  for (const auto& [number, rank] : ranks_) {
    uint32_t turns = 0, messages = 0;
    double sent = 0, received = 0;
    for (const RankTraffic& at : rank.traffic) {
      turns += at.turns;
      messages += schedule::messages_of(at);
      sent += at.bytes_sent;
      received += at.bytes_received;
    }
    cost.depth = std::max(cost.depth, turns);
    cost.messages = std::max(cost.messages, messages);
    cost.widest = std::max(cost.widest, rank.widest);
    bytes = std::max({bytes, sent, received});
    published = std::max(published, rank.published);
    moved = std::max(moved, rank.published + received);
    scratch = std::max(scratch, rank.scratch);
  }
  cost.bytes = fraction_of(bytes);
  cost.published = fraction_of(published);
  cost.moved = fraction_of(moved);
  cost.work = fraction_of(moved * parameters_.ranks);
  cost.scratch = fraction_of(scratch);
  return cost;
}

// Of a node that was not looked at those count that were.
double SampledUse::link_of(size_t level, int rank, const std::vector<double>& uplinks) const {
  if (uplinks.empty()) return 0;
  const auto load = [&](uint32_t node, const NodeSums& sums) {
    return std::max(sums.out, sums.in) * uplinks[node];
  };
  if (level == 0) {
    double out = 0, in = 0;
    for (const RankTraffic& at : ranks_.at(rank).traffic) {
      out += at.bytes_sent;
      in += at.bytes_received;
    }
    return std::max(out, in) * uplinks[static_cast<size_t>(rank)];
  }
  const uint32_t own = tree_.node_of(level - 1, rank);
  const auto& nodes = nodes_[level - 1];
  if (const auto found = nodes.find(own); found != nodes.end()) return load(own, found->second);
  double busiest = 0;
  for (const auto& [node, sums] : nodes) busiest = std::max(busiest, load(node, sums));
  return busiest;
}

std::vector<LevelUse> SampledUse::levels(const schedule::Cost& cost,
                                         const std::vector<PricedLevel>& priced) {
  look_at_nodes(priced);
  std::vector<LevelUse> uses(tree_.levels());
  std::vector<RankUse> ranks;
  for (const auto& [number, rank] : ranks_) {
    RankUse& use = ranks.emplace_back(RankUse{&rank.traffic, {}});
    for (size_t level = 0; level < uses.size(); ++level) {
      const RankTraffic& at = rank.traffic[level];
      const bool talks = schedule::messages_of(at) > 0;
      use.links_ns_per_byte.push_back(talks ? link_of(level, number, priced[level].uplinks) : 0);
      if (composed_) uses[level].cost.depth = std::max(uses[level].cost.depth, at.turns);
    }
  }
  take_busiest(ranks, priced, uses);
  for (const auto& [node, sums] : nodes_[0]) {
    uses[0].cost.work = std::max(uses[0].cost.work, sums.own_moved);
  }
  if (!composed_) share_depth(cost, uses);
  for (LevelUse& use : uses) guess_chains(use.cost);
  return uses;
}

// Where messages flow one way from rank to rank these are in different slices; else each waits for
// the end of the chain, as in a reduction over levels, which every rank begins with its own share.
// Its messages are as long as those of the busiest rank are on average.
void SampledUse::guess_chains(schedule::LevelCost& cost) const {
  const bool waits = !rooted_ || (composed_ && schedule::reduces(algorithm_.collective));
  cost.span = waits ? cost.depth : 0;
  const double messages = std::max<double>(1, cost.messages);
  cost.path = cost.bytes * std::max(1.0, cost.depth / messages);
}

// From the outermost level inwards, since that is where most of the time is.
void SampledUse::share_depth(const schedule::Cost& cost, std::vector<LevelUse>& uses) const {
  const double ranks = parameters_.ranks, logarithm = std::max(1.0, std::log2(ranks));
  std::vector<double> messages(uses.size(), 0);  // of a rank, on average
  double sum = 0;
  for (size_t level = 0; level < uses.size(); ++level) {
    const auto& nodes = nodes_[level == 0 ? 0 : level - 1];
    for (const auto& [node, sums] : nodes) {
      const auto size =
          static_cast<double>(tree_.ranks_of(level == 0 ? 0 : level - 1, node).size());
      messages[level] += (level == 0 ? sums.own_messages : sums.messages) / size;
    }
    messages[level] /= static_cast<double>(nodes.size());
    sum += messages[level];
  }
  const bool is_even = cost.depth > 2 * logarithm + 2 || sum >= 0.5 * cost.depth;
  uint32_t left = cost.depth;
  double nodes_above = 1;
  for (size_t level = uses.size(); level-- > 0;) {
    const double nodes = level == 0 ? ranks : tree_.nodes(level - 1);
    const double part = is_even ? messages[level] / std::max(sum, 1e-9)
                                : std::log2(nodes / nodes_above) / logarithm;
    const auto depth = static_cast<uint32_t>(std::ceil(part * cost.depth - 1e-6));
    uses[level].cost.depth = level == 0 ? left : std::min(left, depth);
    left -= uses[level].cost.depth;
    nodes_above = nodes;
  }
}

}  // namespace tutti::select
