#include "src/select/refit.h"

#include <algorithm>
#include <vector>

namespace tutti::select {
namespace {

constexpr double kMostOfIt = 0.6;  // of a call's time, by the model

/// The opinions of calls on a level: by how much a number should be multiplied.
struct Said {
  std::vector<double> latency, rate;
};

/// The parts of a call's time at one level.
struct TimeParts {
  double latency = 0, rate = 0;
  bool by_links = false;  // the rate is that of links, not of ranks
};

// `rounds`: how often the latencies are paid.
TimeParts time_parts_of(const LevelUse& use, const LinkModel& link, double bytes, double rounds) {
  const double wire = use.cost.bytes * link.wire_ns_per_byte;
  return {rounds * use.cost.depth * link.latency_ns, std::max(wire, use.links_ns_per_byte) * bytes,
          use.links_ns_per_byte > wire};
}

void listen(const Measured& one, LevelPrices& prices, std::vector<Said>& said) {
  const Usage& usage = prices.usage_of(*one.algorithm, one.parameters);
  const double expected = prices.price(usage, one.count_bytes);
  if (usage.levels.size() != prices.levels().size() || !(expected > 0)) return;
  const bool again = usage.lane_levels.empty() && !usage.flows_one_way;
  const auto rounds = again ? static_cast<double>(prices.slices_of(usage, one.count_bytes)) : 1.0;
  for (size_t i = 0; i < usage.levels.size(); ++i) {
    if (prices.levels()[i].maps) continue;
    const TimeParts parts =
        time_parts_of(usage.levels[i], prices.levels()[i].link, one.count_bytes, rounds);
    const auto add = [&](double part, std::vector<double>& factors) {
      if (part < kMostOfIt * expected) return;
      factors.push_back(std::max(one.median_ns - (expected - part), 0.0) / part);
    };
    add(parts.latency, said[i].latency);
    if (!parts.by_links) add(parts.rate, said[i].rate);
  }
}

double median(std::vector<double>& factors) {
  if (factors.empty()) return 1;
  const auto middle = factors.begin() + static_cast<std::ptrdiff_t>(factors.size() / 2);
  std::nth_element(factors.begin(), middle, factors.end());
  return std::clamp(*middle, 1 / kMostChange, kMostChange);
}

LevelRates& rates_of(Model& model, const std::string& name) {
  for (LevelRates& level : model.levels) {
    if (level.name == name) return level;
  }
  return model.levels.emplace_back(LevelRates{.name = name});
}

}  // namespace

std::optional<Model> refit(const Model& model, LevelPrices& prices,
                           std::span<const Measured> measured) {
  std::vector<Said> said(prices.levels().size());
  for (const Measured& one : measured) {
    if (one.calls >= kLeastCalls) listen(one, prices, said);
  }
  Model better = model;
  for (size_t i = 0; i < said.size(); ++i) {
    if (said[i].latency.empty() && said[i].rate.empty()) continue;
    const PricedLevel& level = prices.levels()[i];
    LevelRates& rates = rates_of(better, level.name);
    rates.latency_ns = level.link.latency_ns * median(said[i].latency);
    rates.ns_per_byte = level.link.wire_ns_per_byte * median(said[i].rate);
  }
  if (better == model) return std::nullopt;
  return better;
}

}  // namespace tutti::select
