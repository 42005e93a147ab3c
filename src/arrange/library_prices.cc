#include "src/arrange/library_prices.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "src/sim/simulation.h"
#include "src/types/fold_key.h"

namespace tutti::arrange {
namespace {

using schedule::Collective;

constexpr int kManyCores = 1 << 16;
constexpr uint64_t kRingRegions = 4;  // of a staging ring
constexpr uint32_t kElementBytes = 2;
// Longer calls repeat what shorter ones do, slice by slice: two shorter ones tell how long they
// take.
constexpr double kLongest = 128 << 20;
// More would take more than a few seconds.
constexpr sim::FoldLimits kQuick = {.proved = 3'000'000, .sampled = 400'000, .simulated = 400'000};

Collective collective_of(ExchangeKind kind) {
  switch (kind) {
    case ExchangeKind::kReduceScatter:
      return Collective::kReduceScatter;
    case ExchangeKind::kAllGather:
      return Collective::kAllGather;
    case ExchangeKind::kAllToAll:
      return Collective::kAllToAll;
    default:
      return Collective::kAllReduce;
  }
}

sim::Network network_of(const EvenCluster& cluster, const Spread& group) {
  std::vector<sim::UniformLevel> levels;
  for (size_t level = 0; level < cluster.levels.size(); ++level) {
    const ClusterLevel& from = cluster.levels[level];
    levels.push_back({from.name, group.at[level], from.latency_ns,
                      share_of_link(cluster, group, level), from.maps, 0});
  }
  return std::move(sim::uniform_network(levels)).value();
}

}  // namespace

select::Model selection_model(const sim::Costs& costs) {
  select::Model model;
  model.costs = {
      .signal_latency_ns = costs.signal_ns,
      .signal_ns = costs.signal_ns,
      .copy_ns_per_byte = costs.copy_ns_per_byte,
      .turn_ns = costs.turn_ns,
      .stream_latency_ns = costs.stream_latency_ns,
      .message_ns = costs.message_ns,
      .stream_ns_per_byte = costs.stream_bytes_per_ns > 0 ? 1 / costs.stream_bytes_per_ns : 0,
      .network_latency_ns = 0};
  return model;
}

sim::Costs device_costs(const EvenCluster& cluster) {
  sim::Costs costs;
  if (cluster.levels[0].maps) costs.copy_ns_per_byte = 1 / cluster.levels[0].bytes_per_ns;
  return costs;
}

struct LibraryPrices::GroupClass {
  GroupClass(const EvenCluster& cluster, const Spread& group, const sim::Costs& costs)
      : network(network_of(cluster, group)),
        prices(network.group(), kManyCores, selection_model(costs)) {}

  sim::Network network;
  select::LevelPrices prices;
  std::map<GroupExchange, double> known;
};

LibraryPrices::LibraryPrices(EvenCluster cluster, std::span<const schedule::Algorithm> algorithms,
                             const sim::Costs& costs, uint64_t ring_bytes)
    : ideal_(std::move(cluster)), algorithms_(algorithms), costs_(costs) {
  tuning_.region_bytes = ring_bytes / kRingRegions;
  tuning_.frame_bytes = std::min(tuning_.frame_bytes, tuning_.region_bytes / 2);
}

LibraryPrices::~LibraryPrices() = default;

LibraryPrices::GroupClass& LibraryPrices::class_of(const Spread& group) {
  std::unique_ptr<GroupClass>& made = classes_[group];
  if (made == nullptr) {
    made = std::make_unique<GroupClass>(ideal_.cluster(), group, costs_);
    made->prices.set_slicing({.frame_bytes = static_cast<double>(tuning_.frame_bytes),
                              .stream_bytes = static_cast<double>(tuning_.stream_bytes),
                              .memory_bytes = static_cast<double>(tuning_.long_slice_bytes)});
  }
  return *made;
}

// Of an all_reduce all elements, else those of one rank's share.
uint64_t LibraryPrices::count_of(const GroupExchange& exchange) const {
  const double parts = exchange.kind == ExchangeKind::kAllReduce ? 1 : exchange.group.degree();
  return std::max<uint64_t>(1, static_cast<uint64_t>(exchange.bytes / kElementBytes / parts));
}

Result<select::Candidate> LibraryPrices::choose(const GroupExchange& exchange) {
  GroupClass& group = class_of(exchange.group);
  select::Query query;
  query.collective = collective_of(exchange.kind);
  query.parameters.ranks = group.network.ranks();
  query.parameters.tree = group.prices.tree();
  query.count = count_of(exchange);
  query.element_bytes = kElementBytes;
  query.prices = &group.prices;
  query.limits = {.sources = types::kMaxSources,
                  .slice_bytes = tuning_.frame_bytes,
                  .frame_bytes = tuning_.region_bytes};
  query.fits = [&](const select::Candidate& one) {
    return sim::fits(job_of(exchange, one), group.network.group());
  };
  Result<select::Candidate> chosen = select::choose(algorithms_, query);
  if (!chosen.ok() || !chosen.value().overflows || query.fits(chosen.value())) return chosen;
  return Status::unsupported("no algorithm's frames fit --ring (TUTTI_RING_BYTES)");
}

sim::Job LibraryPrices::job_of(const GroupExchange& exchange,
                               const select::Candidate& candidate) const {
  sim::Job job;
  job.algorithm = candidate.algorithm;
  job.parameters = candidate.parameters;
  job.request.count = count_of(exchange);
  job.request.type = types::DataType::kBfloat16;
  job.request.far_slices = candidate.far_slices;
  job.tuning = tuning_;
  return job;
}

double LibraryPrices::message_ns(const GroupExchange& exchange) const {
  const EvenCluster& cluster = ideal_.cluster();
  const double wire =
      busiest_link_ns(cluster, exchange, 1) + cluster.levels[exchange.level].latency_ns;
  if (cluster.levels[exchange.level].maps) return wire + costs_.signal_ns;
  return wire + costs_.stream_latency_ns + 2 * costs_.message_ns;
}

double LibraryPrices::ns(const GroupExchange& exchange) {
  if (exchange.kind == ExchangeKind::kMessage) return message_ns(exchange);
  if (exchange.group.degree() == 1) return 0;
  std::map<GroupExchange, double>& known = class_of(exchange.group).known;
  const auto found = known.find(exchange);
  if (found != known.end()) return found->second;
  const Result<select::Candidate> chosen = choose(exchange);
  const double ns = chosen.ok() ? chosen.value().predicted_ns : 1e300;
  return known.emplace(exchange, ns).first->second;
}

// Within a host a rank reads what it folds from its peers, so that half of what a wire would carry
// there may do.
double LibraryPrices::least_ns(const GroupExchange& exchange) {
  if (exchange.kind == ExchangeKind::kMessage) return message_ns(exchange);
  if (exchange.group.degree() == 1) return 0;
  const EvenCluster& cluster = ideal_.cluster();
  return 0.999 * busiest_link_ns(cluster, exchange, cluster.levels[0].maps ? 0.5 : 1);
}

std::string LibraryPrices::algorithm_of(const GroupExchange& exchange) {
  if (exchange.kind == ExchangeKind::kMessage || exchange.group.degree() == 1) return "none";
  const Result<select::Candidate> chosen = choose(exchange);
  if (!chosen.ok()) return std::string(chosen.status().message());
  const uint16_t lanes = chosen.value().parameters.lanes;
  return std::string(chosen.value().algorithm->name) +
         (lanes > 1 ? ":" + std::to_string(lanes) : "");
}

Result<double> LibraryPrices::simulate(const GroupExchange& exchange) {
  if (exchange.kind == ExchangeKind::kMessage || exchange.group.degree() == 1) return ns(exchange);
  const Result<select::Candidate> chosen = choose(exchange);
  if (!chosen.ok()) return chosen.status();
  if (exchange.bytes <= kLongest) return simulate(exchange, chosen.value());
  // A shorter call has fewer slices between hosts, and they are as long as those of the whole one.
  select::Candidate candidate = chosen.value();
  const double far = std::max<double>(1, static_cast<double>(candidate.far_slices));
  const double slice = candidate.far_slices > 0 ? exchange.bytes / far : 1;
  const double slices = std::max(1.0, std::floor(kLongest / 2 / slice));
  GroupExchange shorter = exchange;
  shorter.bytes = slices * slice;
  if (candidate.far_slices > 0) candidate.far_slices = static_cast<uint64_t>(slices);
  const Result<double> once = simulate(shorter, candidate);
  if (!once.ok()) return once.status();
  shorter.bytes *= 2;
  candidate.far_slices *= 2;
  const Result<double> twice = simulate(shorter, candidate);
  if (!twice.ok()) return twice.status();
  const double more = (exchange.bytes - shorter.bytes) / (slices * slice);
  return twice.value() + more * (twice.value() - once.value());
}

Result<double> LibraryPrices::simulate(const GroupExchange& exchange,
                                       const select::Candidate& candidate) {
  sim::Experiment wanted;
  wanted.job = job_of(exchange, candidate);
  wanted.costs = costs_;
  wanted.folding = sim::Folding::kSampled;
  wanted.limits = kQuick;
  const Result<sim::Outcome> outcome = sim::simulate(wanted, class_of(exchange.group).network);
  if (!outcome.ok()) return outcome.status();
  if (!outcome.value().is_complete) return Status::internal_error("a simulated call never ended");
  return sim::nanoseconds(outcome.value().end);
}

double SimulatedPrices::ns(const GroupExchange& exchange) {
  auto found = known_.find(exchange);
  if (found == known_.end()) {
    // An exchange for which there was no time is asked about again where there is.
    if (is_over_()) {
      ++predicted_;
      why_ = "the time was over";
      return model_.ns(exchange);
    }
    const Result<double> simulated = model_.simulate(exchange);
    PricedExchange known;
    known.ns = simulated.ok() ? simulated.value() : model_.ns(exchange);
    if (!simulated.ok()) known.why = simulated.status().message();
    found = known_.emplace(exchange, std::move(known)).first;
  }
  if (!found->second.why.empty()) {
    ++predicted_;
    why_ = found->second.why;
  }
  return found->second.ns;
}

}  // namespace tutti::arrange
