// For tests of arrangements: a small job, a small cluster, and the search that tries everything.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/arrange/search.h"

namespace tutti::arrange::tests {

inline TrainingJob small_job() {
  TrainingJob job;
  job.model = {.name = "small",
               .layers = 8,
               .hidden = 512,
               .heads = 8,
               .kv_heads = 4,
               .feed_forward = 1536,
               .vocabulary = 1024,
               .sequence = 256,
               .batch = 64};
  job.device = {.name = "small",
                .flops_per_ns = 10'000,
                .memory = 1e9,
                .matmul = 0.5,
                .attention = 0.5,
                .experts = 0.5};
  return job;
}

/// Levels of these sizes from the innermost; each has half the bandwidth of the one inside.
inline EvenCluster cluster_of(const std::vector<uint32_t>& sizes, double bytes_per_ns = 64) {
  EvenCluster cluster;
  double latency = 500;
  for (const uint32_t size : sizes) {
    const std::string name = "level " + std::to_string(cluster.levels.size());
    cluster.levels.push_back({name, size, latency, bytes_per_ns, cluster.levels.empty()});
    bytes_per_ns /= 2;
    latency *= 4;
  }
  return cluster;
}

/// Every placement of every way to cut the job, priced.
inline std::vector<Arranged> try_everything(const StepPricer& pricer, ExchangePrices& prices,
                                            const FixedParts& fixed, size_t keep) {
  std::vector<std::string> refused;
  BestArrangements best(keep, pricer.cluster().levels.size() - 1);
  for (const Arrangement& cut : ways_to_cut(pricer, fixed, refused)) {
    for_each_placement(cut, pricer.cluster(), [&](const Arrangement& placed) {
      if (!pricer.why_not_placed(placed).empty()) return;
      const auto ns = [&](const GroupExchange& exchange) { return prices.ns(exchange); };
      best.offer({placed, pricer.price(placed, ns), pricer.memory(placed)});
    });
  }
  return best.all();
}

}  // namespace tutti::arrange::tests
