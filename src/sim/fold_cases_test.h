// Random calls on random clusters, simulated folded and rank by rank.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>

#include "src/base/prng.h"
#include "src/sim/simulation_test.h"

namespace tutti::sim::tests {

/// A tree in which all nodes of a level are equal, of up to 64 ranks, on hosts or not.
inline Network random_symmetric(Prng& random, std::string& text) {
  std::vector<UniformLevel> levels;
  uint32_t ranks = 1;
  const size_t depth = 1 + random() % 4;
  const size_t mapped = random() % 3;  // levels within a host
  for (size_t i = 0; i < depth; ++i) {
    const auto children = static_cast<uint32_t>(1 + random() % 8);
    if (ranks * children > 64) break;
    ranks *= children;
    UniformLevel level{
        "level " + std::to_string(i), children, 100.0 * (1 + random() % 50), 0, i < mapped, 0};
    if (random() % 8 > 0) level.port_bytes_per_ns = 0.5 * (1 + random() % 20);
    if (level.maps && random() % 2 == 0) level.shared_bytes_per_ns = 1 + random() % 40;
    if (level.maps && i > 0) levels.back().shared_bytes_per_ns = 0;
    text += " " + std::to_string(children) + (level.maps ? "m" : "");
    levels.push_back(level);
  }
  if (levels.empty()) levels.push_back({"alone", 1, 0, 0, true, 0});
  return std::move(uniform_network(levels)).value();
}

inline Experiment random_experiment(Prng& random, const Network& network, std::string& text) {
  const auto all = registry::algorithms();
  Experiment made;
  made.job.algorithm = &all[random() % all.size()];
  made.job.parameters.ranks = network.ranks();
  made.job.parameters.root = static_cast<int>(random() % static_cast<uint64_t>(network.ranks()));
  made.job.parameters.lanes =
      static_cast<uint16_t>(1 + random() % std::min<uint16_t>(made.job.algorithm->max_lanes, 3));
  const auto ranks = static_cast<uint64_t>(network.ranks());
  made.job.request.count = 1 + random() % (random() % 2 == 0 ? 300 : 300'000 / ranks);
  made.job.calls = 1 + random() % 3;
  made.job.mode = random() % 3 == 0 ? plan::Mode::kDirect : plan::Mode::kStaged;
  made.costs.cores = static_cast<int>(random() % 3);
  text += " " + std::string(name_of(made.job.algorithm->collective)) + "/" +
          std::string(made.job.algorithm->name) + ":" + std::to_string(made.job.parameters.lanes) +
          " count " + std::to_string(made.job.request.count) + " root " +
          std::to_string(made.job.parameters.root);
  return made;
}

inline void expect_equal(const Outcome& folded, const Outcome& whole) {
  EXPECT_EQ(folded.end, whole.end);
  for (size_t rank = 0; rank < whole.ends.size(); ++rank) {
    EXPECT_EQ(folded.ends[folded.cast.actor_of[rank]], whole.ends[rank]) << "rank " << rank;
  }
  ASSERT_EQ(folded.loads.size(), whole.loads.size());
  for (size_t i = 0; i < whole.loads.size(); ++i) {
    EXPECT_NEAR(folded.loads[i].bytes, whole.loads[i].bytes, 1e-9 * whole.loads[i].bytes);
    EXPECT_NEAR(folded.loads[i].total, whole.loads[i].total, 1e-9 * whole.loads[i].total);
  }
  ASSERT_EQ(folded.level_bytes.size(), whole.level_bytes.size());
  for (size_t i = 0; i < whole.level_bytes.size(); ++i) {
    EXPECT_NEAR(folded.level_bytes[i], whole.level_bytes[i], 1e-9 * whole.level_bytes[i]);
  }
}

/// Of `topologies`, how many were folded.
inline int compare_folds(uint64_t seed, int topologies) {
  Prng random(seed);
  int folds = 0;
  uint64_t ranks = 0, actors = 0;
  for (int i = 0; i < topologies && !testing::Test::HasFailure(); ++i) {
    std::string text = std::to_string(i) + ":";
    const Network network = random_symmetric(random, text);
    Experiment wanted = random_experiment(random, network, text);
    SCOPED_TRACE(text);
    const Outcome folded = run(wanted, network);
    wanted.folding = Folding::kNever;
    const Outcome whole = run(wanted, network);
    EXPECT_TRUE(whole.is_complete);
    expect_equal(folded, whole);
    folds += folded.cast.is_folded() ? 1 : 0;
    ranks += whole.cast.actors.size();
    actors += folded.cast.actors.size();
  }
  std::printf("%d of %d folded, %llu ranks into %llu\n", folds, topologies,
              static_cast<unsigned long long>(ranks), static_cast<unsigned long long>(actors));
  return folds;
}

}  // namespace tutti::sim::tests
