// NoLoCo: no collective at all. After `period` steps each rank averages with one other rank, and
// who that is follows from a seed and the number of the round, so no message decides it.
//
//   delta = local - slow;  m <- alpha * m + eta * mean(delta) + gamma * (mean(slow) - slow)
//   slow <- slow + m;  local <- slow                          (means over the pair)
//
// Paper: NoLoCo (arXiv:2506.10911). Exact: pairs, exchange and update; public settings are alpha
// 0.5, eta and gamma 0.7. Found here: without deltas, slow weights of many ranks come together iff
// 0 < gamma < 2 * (1 - alpha^2); a gamma outside is refused (with the public gamma, alpha 0.9
// diverges).
// Reconstructed: an exchange that is still under way `delay` steps later is taken over then, and
// what the rank has gone meanwhile is kept; the paper has no delay. The pipeline variant is left
// out.
//
// A rank whose partner is gone, or late for longer than `timeout_ns`, skips the round and keeps its
// slow weights; rounds are skipped until regroup(), as its communicator has failed. No rank waits
// for any other than its partner.
//
// Owns: slow weights and momentum, 8 bytes a parameter, and buffers of 16. The rest is as
//       optimizer.h says.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tutti/runtime/outer/optimizer.h"

namespace tutti::runtime {

enum class OddRank {
  kRefused,  // an odd number of ranks is an error
  kIdle,     // one rank a round, another one each time, exchanges nothing
};

/// The partner of each rank in a round; -1: it idles. A function of its arguments alone.
TUTTI_RUNTIME_API std::vector<int> gossip_pairs(uint64_t seed, int64_t round, int ranks,
                                                OddRank odd = OddRank::kRefused);

/// The factor by which the mean square of slow weights falls in a round without deltas, with many
/// ranks: the spectral radius of the map of E slow^2, E slow * m, E m^2. From 1 on it diverges.
TUTTI_RUNTIME_API double consensus_rate(double alpha, double gamma);
/// E max(a, b) / E a for two log-normal times: how long a pair waits, in times of one message.
TUTTI_RUNTIME_API double expected_pair_wait(double sigma);
/// The waits one behind the other of an all_reduce by a tree, up and down: 2 * ceil(log2(ranks)).
TUTTI_RUNTIME_API int tree_waits(int ranks);

struct NoLoCoSpec {
  int64_t period = 50;
  float alpha = 0.5f;
  float eta = 0.7f;
  float gamma = 0.7f;
  uint64_t seed = 0;
  OddRank odd = OddRank::kRefused;
  int64_t delay = 0;
  uint64_t timeout_ns = 0;  // of a round's exchange; 0: that of the communicator
};

class TUTTI_RUNTIME_API NoLoCo final : public OuterOptimizer {
 public:
  /// `params` need not be equal on all ranks.
  NoLoCo(OuterGroup group, std::span<const float> params, const NoLoCoSpec& spec);
  ~NoLoCo() override;

  std::span<const float> slow() const;

 private:
  OuterReport at_boundary(int64_t step, std::span<float> params, bool commit) override;
  OuterReport take_rest(std::span<float> params) override;
  void join_group() override;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::runtime
