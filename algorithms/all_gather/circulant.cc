#include "algorithms/all_gather/circulant.h"

#include <algorithm>
#include <vector>

#include "algorithms/patterns/circulant.h"
#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/ring.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::all_gather {

using namespace schedule;
using patterns::Hop;
using patterns::Ring;

namespace {

Shape shape_of(const Parameters& p) {
  return {.collective = Collective::kAllGather,
          .ranks = p.ranks,
          .lanes = p.lanes,
          .input = Partition::equal(p.lanes),
          .output = Partition::equal(static_cast<uint32_t>(p.ranks) * p.lanes)};
}

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  std::vector<std::vector<Block>> shares;  // of each lane, by offset from this rank
  for (uint16_t lane = 0; lane < p.lanes; ++lane) {
    shares.push_back(Ring::of(p, lane).parts_from(rank, Space::kOutput));
    shares[lane][0] = input(lane);
  }
  std::vector<Hop> hops = patterns::circulant_hops(p.ranks);
  std::reverse(hops.begin(), hops.end());
  for (const Hop& hop : hops) {
    for (uint16_t lane = 0; lane < p.lanes; ++lane) {
      const Ring ring = Ring::of(p, lane);
      builder.lane(lane);
      builder.send(std::span(shares[lane]).first(hop.count), ring.at(rank, -hop.distance));
    }
    for (uint16_t lane = 0; lane < p.lanes; ++lane) {
      const Ring ring = Ring::of(p, lane);
      const auto received = std::span(shares[lane]).subspan(hop.distance, hop.count);
      builder.lane(lane);
      builder.receive(received, ring.at(rank, hop.distance));
    }
  }
  for (uint16_t lane = 0; lane < p.lanes; ++lane) {
    builder.lane(lane);
    builder.copy(output(Ring::of(p, lane).part(rank)), input(lane));
  }
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  const auto rounds = static_cast<uint32_t>(patterns::doubling_rounds(p.ranks));
  return {.depth = rounds,
          .messages = rounds * p.lanes,
          .bytes = Fraction::of(p.ranks - 1, 1),
          .published = Fraction::of(p.ranks - 1, 1),
          .scratch = {}};
}

}  // namespace

Algorithm circulant() {
  return {
      .collective = Collective::kAllGather,
      .name = "circulant",
      .summary = "in each round one message with up to all shares that a rank has",
      .wins = "small and middle counts over a network, any number of ranks",
      .source = "Bruck et al. 1997; Traeff 2024",
      .max_lanes = 8,
      .shape = shape_of,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::all_gather
