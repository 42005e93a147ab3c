// Algorithms in which every rank does the same: in a round everybody passes blocks on to the rank
// one hop further.
//
// Seen from a rank, the share of the rank x further lies at offset x. A reduce-scatter takes the
// hops in order: the sums at offsets distance + i * stride travel `distance` ranks and are folded
// into those at offsets i * stride, until all that is left is the share at offset 0, the own. An
// all-gather takes them in reverse, against the direction. Which hops there are decides how much
// travels how far:
//   circulant  half of the window, rounded down: ceil(log2 n) rounds, large messages far
//   bruck      powers of two, the last one cut off: the same for powers of two
//   pat        powers of two, the nearest first: half of the shares travel one rank, and only one
//              share travels half way round
#pragma once

#include <vector>

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::patterns {

/// One round of a reduce-scatter.
struct Hop {
  int distance = 0;
  int count = 0;
  int stride = 1;

  int offset(int i) const { return i * stride; }  // where block i arrives
};

/// Their counts add up to ranks - 1; every offset but 0 leaves once, after all that arrives there.
std::vector<Hop> circulant_hops(int ranks);
std::vector<Hop> bruck_hops(int ranks);
std::vector<Hop> pat_hops(int ranks);
using HopsOf = std::vector<Hop> (*)(int ranks);

schedule::Schedule hop_reduce_scatter(const schedule::Parameters& p, int rank,
                                      const std::vector<Hop>& hops);
schedule::Schedule hop_all_gather(const schedule::Parameters& p, int rank,
                                  const std::vector<Hop>& hops);
schedule::Cost hop_reduce_scatter_cost(const schedule::Parameters& p, const std::vector<Hop>& hops);
schedule::Cost hop_all_gather_cost(const schedule::Parameters& p, const std::vector<Hop>& hops);

/// Fills in what follows from the hops; every lane works on its part of all shares, odd lanes in
/// the other direction.
schedule::Algorithm hop_algorithm(schedule::Algorithm described);

template <HopsOf kHops>
schedule::Algorithm reduce_scatter_by(schedule::Algorithm described) {
  using schedule::Parameters;
  described.collective = schedule::Collective::kReduceScatter;
  described.schedule = [](const Parameters& p, int rank) {
    return hop_reduce_scatter(p, rank, kHops(p.ranks));
  };
  described.cost = [](const Parameters& p) { return hop_reduce_scatter_cost(p, kHops(p.ranks)); };
  return hop_algorithm(described);
}

template <HopsOf kHops>
schedule::Algorithm all_gather_by(schedule::Algorithm described) {
  using schedule::Parameters;
  described.collective = schedule::Collective::kAllGather;
  described.schedule = [](const Parameters& p, int rank) {
    return hop_all_gather(p, rank, kHops(p.ranks));
  };
  described.cost = [](const Parameters& p) { return hop_all_gather_cost(p, kHops(p.ranks)); };
  return hop_algorithm(described);
}

}  // namespace tutti::algorithms::patterns
