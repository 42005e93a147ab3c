#include "src/select/level_prices.h"

#include <algorithm>
#include <utility>

#include "src/select/busiest.h"
#include "src/select/sampled_use.h"
#include "src/select/tree_of.h"

namespace tutti::select {
namespace {

int largest_host(const group::GroupView& group) {
  std::vector<int> ranks(group.hosts(), 0);
  for (int rank = 0; rank < group.ranks(); ++rank) ++ranks[group.host_of(rank)];
  return *std::max_element(ranks.begin(), ranks.end());
}

// Slower where one of both is known.
void narrow(std::vector<double>& uplinks, const group::Level& level) {
  for (size_t rank = 0; rank < level.uplinks.size(); ++rank) {
    if (level.uplinks[rank] > 0) uplinks[rank] = std::max(uplinks[rank], 1 / level.uplinks[rank]);
  }
}

// Of nodes, whose ranks all have the same; none where none is known.
std::vector<double> by_node(const std::vector<double>& uplinks, const group::Level* level) {
  std::vector<double> nodes;
  if (std::all_of(uplinks.begin(), uplinks.end(), [](double one) { return one == 0; })) {
    return nodes;
  }
  if (level == nullptr) return uplinks;
  for (size_t rank = 0; rank < uplinks.size(); ++rank) {
    if (level->nodes[rank] == nodes.size()) nodes.push_back(uplinks[rank]);
  }
  return nodes;
}

// Blocks of one count of elements: all of a buffer's, or those of one share.
uint32_t blocks_of_count(const schedule::Shape& shape) {
  const schedule::Traits& traits = schedule::traits_of(shape.collective);
  const auto ranks = static_cast<uint32_t>(shape.ranks);
  return std::max(shape.input.blocks / (traits.input.parts ? ranks : 1),
                  shape.output.blocks / (traits.output.parts ? ranks : 1));
}

}  // namespace

// As NodeTree::make() does it, a level that unites nothing is left out; what leaves a node of it
// takes the link of that level, too.
LevelPrices::LevelPrices(group::GroupPointer group, int cores, const Model& model, int most_counted)
    : group_(std::move(group)), tree_(tree_of(*group_)), most_counted_(most_counted) {
  const Crowd crowd{largest_host(*group_), cores};
  const auto ranks = static_cast<size_t>(group_->ranks());
  std::vector<double> uplinks(ranks, 0);
  const group::Level* inside = nullptr;  // null: ranks
  size_t nodes = ranks;
  for (size_t i = first_level_of(*group_); i < group_->levels(); ++i) {
    const group::Level& level = group_->level(i);
    const bool is_only = i + 1 == group_->levels() && levels_.empty();
    if (group_->nodes(i) < nodes || is_only) {
      levels_.push_back(
          {link_of(model, level, crowd), level.name, by_node(uplinks, inside), level.reach.map});
      uplinks.assign(ranks, 0);
      inside = &level;
      nodes = group_->nodes(i);
    }
    narrow(uplinks, level);
  }
}

const Usage& LevelPrices::usage_of(const schedule::Algorithm& algorithm,
                                   const schedule::Parameters& parameters) {
  const Key key{algorithm.collective, algorithm.name,  parameters.ranks,     parameters.root,
                parameters.lanes,     parameters.fold, parameters.tree.get()};
  const auto [found, is_new] = known_.try_emplace(key);
  if (is_new) found->second = use_of(algorithm, parameters);
  return found->second;
}

Usage LevelPrices::use_of(const schedule::Algorithm& algorithm,
                          const schedule::Parameters& parameters) const {
  Usage usage;
  const schedule::Shape shape = algorithm.shape(parameters);
  usage.blocks = blocks_of_count(shape);
  const bool is_large = parameters.ranks > most_counted_;
  const bool is_flat = levels_.size() == 1 && levels_[0].uplinks.empty();
  const bool is_composed = algorithm.loads != nullptr && tree_ != nullptr;
  if (is_large && !is_flat) {
    SampledUse sample(algorithm, parameters, shape, *tree_);
    // Of what is composed over levels the costs of all ranks would have to be counted, too.
    usage.cost = is_composed ? sample.cost() : algorithm.cost(parameters);
    usage.levels = sample.levels(usage.cost, levels_);
    return usage;
  }
  usage.cost = algorithm.cost(parameters);
  if (!is_flat) usage.levels = count(algorithm, parameters);
  if (usage.levels.empty()) usage.levels = {{level_cost(usage.cost), 0}};
  return usage;
}

double LevelPrices::price(const Usage& usage, double count_bytes) const {
  double sum = 0;
  for (size_t i = 0; i < usage.levels.size(); ++i) {
    // The only one there is, where the algorithm's schedules say nothing of levels.
    const PricedLevel& level = usage.levels.size() == 1 ? levels_.back() : levels_[i];
    sum += predict_ns(usage.levels[i], level.link, count_bytes);
  }
  return sum;
}

std::vector<LevelUse> LevelPrices::count(const schedule::Algorithm& algorithm,
                                         const schedule::Parameters& parameters) const {
  const schedule::LevelMap map{tree_->levels(),
                               [this](int a, int b) { return tree_->common_level(a, b); },
                               [this](int rank) { return group_->host_of(rank); }};
  const auto counted = schedule::count_traffic(algorithm.shape(parameters),
                                               schedule::schedules_of(algorithm, parameters), map);
  std::vector<LevelUse> uses;
  if (!counted.ok()) return uses;
  std::vector<RankUse> ranks;
  for (const auto& traffic : counted.value().traffic) {
    ranks.push_back({&traffic, std::vector<double>(levels_.size(), 0)});
  }
  for (size_t i = 0; i < levels_.size(); ++i) {
    uses.push_back({counted.value().costs[i], 0});
    const std::vector<double> links = links_below(i, counted.value().traffic);
    for (size_t rank = 0; rank < ranks.size() && !links.empty(); ++rank) {
      if (schedule::messages_of((*ranks[rank].traffic)[i]) == 0) continue;
      ranks[rank].links_ns_per_byte[i] = links[node_below(i, static_cast<int>(rank))];
    }
  }
  take_busiest(ranks, levels_, uses);
  return uses;
}

size_t LevelPrices::node_below(size_t level, int rank) const {
  return level == 0 ? static_cast<size_t>(rank) : tree_->node_of(level - 1, rank);
}

// How long the links of the nodes below a level take for all that leaves or enters them.
std::vector<double> LevelPrices::links_below(
    size_t level, const std::vector<std::vector<schedule::RankTraffic>>& traffic) const {
  const std::vector<double>& uplinks = levels_[level].uplinks;
  std::vector<double> out(uplinks.size(), 0), in(uplinks.size(), 0), links;
  for (size_t rank = 0; rank < traffic.size() && !uplinks.empty(); ++rank) {
    const size_t node = node_below(level, static_cast<int>(rank));
    for (size_t above = level; above < levels_.size(); ++above) {
      out[node] += traffic[rank][above].bytes_sent;
      in[node] += traffic[rank][above].bytes_received;
    }
  }
  for (size_t node = 0; node < uplinks.size(); ++node) {
    links.push_back(std::max(out[node], in[node]) * uplinks[node]);
  }
  return links;
}

}  // namespace tutti::select
