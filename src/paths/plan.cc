#include "src/paths/plan.h"

#include <algorithm>
#include <map>
#include <string>

#include "src/base/prng.h"
#include "src/paths/balancer.h"
#include "src/paths/colouring.h"

namespace tutti::paths {
namespace {

Status check(const Fabric& fabric, const std::vector<Flow>& flows) {
  if (Status status = fabric.check(); !status.ok()) return status;
  for (size_t i = 0; i < flows.size(); ++i) {
    const Flow& flow = flows[i];
    if (flow.source < fabric.leaves && flow.target < fabric.leaves && flow.bytes >= 0) continue;
    return Status::invalid_argument("flow " + std::to_string(i) + " from leaf " +
                                    std::to_string(flow.source) + " to leaf " +
                                    std::to_string(flow.target) + " of a fabric of " +
                                    std::to_string(fabric.leaves) + " leaves");
  }
  return {};
}

Result<std::vector<uint32_t>> living_spines(const Fabric& fabric, const Flow& flow) {
  std::vector<uint32_t> spines;
  for (uint32_t spine = 0; spine < fabric.spines; ++spine) {
    if (fabric.joins(flow.source, flow.target, spine)) spines.push_back(spine);
  }
  if (!spines.empty()) return spines;
  return Status::unsupported("no living path joins leaf " + std::to_string(flow.source) +
                             " with leaf " + std::to_string(flow.target));
}

bool all_equal(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](double value) { return value == values.front(); });
}

bool is_regular(const Fabric& fabric, const std::vector<Flow>& flows) {
  const bool equal_flows = std::all_of(flows.begin(), flows.end(), [&](const Flow& flow) {
    return flow.bytes == flows.front().bytes;
  });
  return equal_flows && all_equal(fabric.up) && all_equal(fabric.down) && fabric.up[0] > 0 &&
         fabric.down[0] > 0;
}

// The pieces of every flow that leaves its leaf, not placed yet.
std::vector<Placed> cut(const Fabric& fabric, const std::vector<Flow>& flows,
                        const PlanOptions& options) {
  std::vector<uint32_t> of_leaf(fabric.leaves);
  for (const Flow& flow : flows) of_leaf[flow.source] += flow.source != flow.target ? 1 : 0;
  std::vector<Placed> pieces;
  for (uint32_t i = 0; i < flows.size(); ++i) {
    const Flow& flow = flows[i];
    uint32_t count = 1;
    if (options.split && flow.source != flow.target) {
      const auto bytes = static_cast<uint64_t>(flow.bytes);
      const auto split = minimal_split(of_leaf[flow.source], fabric.spines, bytes, options.limits);
      if (split.ok()) count = split.value().pieces;
    }
    for (uint32_t piece = 0; piece < count; ++piece) {
      pieces.push_back({i, 0, flow.bytes / count});
    }
  }
  return pieces;
}

// Alike links and equal pieces: colours are spines.
Status place_evenly(const Fabric& fabric, const std::vector<Flow>& flows,
                    std::vector<Placed>& pieces) {
  std::vector<FlowEdge> edges;
  for (const Placed& piece : pieces) {
    edges.push_back({flows[piece.flow].source, flows[piece.flow].target});
  }
  Result<std::vector<uint32_t>> colours =
      equitable_colours(edges, fabric.leaves, fabric.leaves, fabric.spines);
  if (!colours.ok()) return colours.status();
  for (size_t i = 0; i < pieces.size(); ++i) pieces[i].spine = colours.value()[i];
  return {};
}

}  // namespace

Result<std::vector<Placed>> place_by_hash(const Fabric& fabric, const std::vector<Flow>& flows,
                                          uint64_t seed) {
  if (Status status = check(fabric, flows); !status.ok()) return status;
  std::vector<Placed> placed;
  for (uint32_t i = 0; i < flows.size(); ++i) {
    Result<std::vector<uint32_t>> spines = living_spines(fabric, flows[i]);
    if (!spines.ok()) return spines.status();
    uint64_t state =
        seed ^ (uint64_t{flows[i].source} << 40) ^ (uint64_t{flows[i].target} << 20) ^ i;
    const uint64_t hash = splitmix64(state);
    placed.push_back({i, spines.value()[hash % spines.value().size()], flows[i].bytes});
  }
  return placed;
}

double expected_most_load(uint32_t flows, uint32_t uplinks) {
  if (uplinks == 0) return 0;
  // P(fullest <= m) = flows! / uplinks^flows * [x^flows] (sum over j <= m of x^j / j!)^uplinks.
  // Each factor is scaled by flows!, spread over the products, as probabilities of bins filled in
  // turn.
  double expected = 0;
  for (uint32_t most = 0; most < flows; ++most) {
    std::vector<double> left(flows +
                             1);  // by flows that are left: probability that bins hold so far
    left[flows] = 1;
    for (uint32_t bin = 0; bin < uplinks; ++bin) {
      const double chance = 1.0 / (uplinks - bin);  // of one of those left to be in this bin
      std::vector<double> next(flows + 1);
      for (uint32_t n = 0; n <= flows; ++n) {
        if (left[n] == 0) continue;
        double choose = 1;  // n over j, times chance^j
        for (uint32_t j = 0; j <= std::min(most, n); ++j) {
          double others = 1;
          for (uint32_t k = 0; k < n - j; ++k) others *= 1 - chance;
          next[n - j] += left[n] * choose * others;
          choose *= chance * (n - j) / (j + 1);
        }
      }
      left = std::move(next);
    }
    expected += 1 - left[0];
  }
  return expected;
}

Result<std::vector<Placed>> plan_paths(const Fabric& fabric, const std::vector<Flow>& flows,
                                       const PlanOptions& options) {
  if (Status status = check(fabric, flows); !status.ok()) return status;
  for (const Flow& flow : flows) {
    const auto spines = living_spines(fabric, flow);
    if (!spines.ok() && flow.source != flow.target) return spines.status();
  }
  std::vector<Placed> pieces = cut(fabric, flows, options);
  std::vector<Placed> within, between;
  for (const Placed& piece : pieces) {
    const Flow& flow = flows[piece.flow];
    (flow.source == flow.target ? within : between).push_back(piece);
  }
  const bool one_plane = fabric.plane_of.empty() || options.rules.planes_may_differ;
  const bool alike =
      between.empty() || std::all_of(between.begin(), between.end(), [&](const Placed& piece) {
        return piece.bytes == between[0].bytes;
      });
  if (is_regular(fabric, flows) && alike && one_plane) {
    if (Status status = place_evenly(fabric, flows, between); !status.ok()) return status;
  } else {
    std::stable_sort(between.begin(), between.end(),
                     [](const Placed& a, const Placed& b) { return a.bytes > b.bytes; });
    Balancer balancer(fabric, options.rules);
    for (Placed& piece : between) balancer.put(flows[piece.flow], piece);
    balancer.improve(flows, between);
  }
  between.insert(between.end(), within.begin(), within.end());
  return between;
}

Result<std::vector<Placed>> rebalance(const std::vector<Placed>& placed,
                                      const std::vector<double>& rates) {
  if (rates.size() != placed.size()) {
    return Status::invalid_argument(std::to_string(placed.size()) + " pieces and " +
                                    std::to_string(rates.size()) + " rates");
  }
  std::map<uint32_t, std::pair<double, double>> of_flow;  // bytes, rate
  for (size_t i = 0; i < placed.size(); ++i) {
    if (!(rates[i] >= 0)) return Status::invalid_argument("a piece has a negative rate");
    of_flow[placed[i].flow].first += placed[i].bytes;
    of_flow[placed[i].flow].second += rates[i];
  }
  std::vector<Placed> moved = placed;
  for (size_t i = 0; i < moved.size(); ++i) {
    const auto& [bytes, rate] = of_flow[moved[i].flow];
    if (!(rate > 0)) {
      return Status::invalid_argument("no piece of flow " + std::to_string(moved[i].flow) +
                                      " moves: its paths are dead, so plan it anew");
    }
    moved[i].bytes = bytes * rates[i] / rate;
  }
  return moved;
}

}  // namespace tutti::paths
