#include "src/select/level_prices.h"

#include <algorithm>

namespace tutti::select {
namespace {

int largest_host(const group::GroupView& group) {
  std::vector<int> ranks(group.hosts(), 0);
  for (int rank = 0; rank < group.ranks(); ++rank) ++ranks[group.host_of(rank)];
  return *std::max_element(ranks.begin(), ranks.end());
}

}  // namespace

// Levels with one kind of link cost the same, so there are at most two prices: within hosts and
// between them.
LevelPrices::LevelPrices(group::GroupPointer group, int cores) : group_(std::move(group)) {
  const int ranks = largest_host(*group_);
  const bool has_near = ranks > 1, has_far = group_->hosts() > 1;
  if (has_near || !has_far) models_.push_back(model_of({.map = true}, {ranks, cores}));
  if (has_far) models_.push_back(model_of({.stream = true}, {ranks, cores}));
}

LevelPrices::Key LevelPrices::key_of(const schedule::Algorithm& algorithm,
                                     const schedule::Parameters& parameters) {
  return {algorithm.collective, algorithm.name,  parameters.ranks,     parameters.root,
          parameters.lanes,     parameters.fold, parameters.tree.get()};
}

const schedule::Cost& LevelPrices::cost_of(const schedule::Algorithm& algorithm,
                                           const schedule::Parameters& parameters) {
  const auto [found, is_new] = declared_.try_emplace(key_of(algorithm, parameters));
  if (is_new) found->second = algorithm.cost(parameters);
  return found->second;
}

double LevelPrices::price(const schedule::Algorithm& algorithm,
                          const schedule::Parameters& parameters, const schedule::Cost& cost,
                          double count_bytes) {
  if (models_.size() == 1) return predict_ns(cost, models_[0], count_bytes);
  const std::vector<schedule::LevelCost>& costs = costs_of(algorithm, parameters);
  if (costs.empty()) return predict_ns(cost, slowest(), count_bytes);
  double sum = 0;
  for (size_t i = 0; i < costs.size(); ++i) sum += predict_ns(costs[i], models_[i], count_bytes);
  return sum;
}

const std::vector<schedule::LevelCost>& LevelPrices::costs_of(
    const schedule::Algorithm& algorithm, const schedule::Parameters& parameters) {
  const auto [found, is_new] = counted_.try_emplace(key_of(algorithm, parameters));
  if (!is_new || parameters.ranks > kMostCounted) return found->second;
  const group::GroupView& group = *group_;
  const schedule::LevelMap map{
      2, [&group](int a, int b) { return group.near(a, b) ? size_t{0} : size_t{1}; },
      [&group](int rank) { return group.host_of(rank); }};
  auto counted = schedule::count_by_level(algorithm, parameters, map);
  if (counted.ok()) found->second = std::move(counted).value();
  return found->second;
}

}  // namespace tutti::select
