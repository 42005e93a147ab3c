#include "algorithms/patterns/hops.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/ring.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::patterns {

using namespace schedule;

namespace {

// The steps of one lane of this rank. `shares_` are the newest values of all shares, by offset from
// this rank: inputs at first, sums later.
class ReducingLane {
 public:
  ReducingLane(Builder& builder, const Ring& ring, int rank)
      : builder_(builder),
        ring_(ring),
        rank_(rank),
        shares_(ring.parts_from(rank, Space::kInput)) {}

  void send(const Hop& hop) {
    std::vector<Block> leaving;
    for (int i = 0; i < hop.count; ++i) leaving.push_back(shares_[hop.distance + hop.offset(i)]);
    builder_.lane(ring_.lane);
    builder_.send(leaving, ring_.at(rank_, hop.distance));
  }

  void reduce(const Hop& hop) {
    std::vector<Block> values, sums;
    for (int i = 0; i < hop.count; ++i) {
      Block& share = shares_[hop.offset(i)];
      values.push_back(share);
      const bool first = share.space() == Space::kInput;
      if (first) share = hop.offset(i) == 0 ? output(ring_.lane) : builder_.scratch(share);
      sums.push_back(share);
    }
    const MoveSource sources[] = {MoveSource::message(ring_.at(rank_, -hop.distance)),
                                  MoveSource::local(values)};
    builder_.lane(ring_.lane);
    builder_.move(sums, sources);
  }

 private:
  Builder& builder_;
  Ring ring_;
  int rank_;
  std::vector<Block> shares_;
};

Cost cost_of(const Parameters& p, const std::vector<Hop>& hops, int scratch) {
  const auto rounds = static_cast<uint32_t>(hops.size());
  return balanced(p.ranks, {.depth = rounds,
                            .messages = rounds * p.lanes,
                            .bytes = Fraction::of(p.ranks - 1, 1),
                            .published = Fraction::of(p.ranks - 1, 1),
                            .scratch = Fraction::of(scratch, 1)});
}

}  // namespace

std::vector<Hop> circulant_hops(int ranks) {
  std::vector<Hop> hops;
  for (int window = ranks; window > 1;) {
    const int near = (window + 1) / 2;
    hops.push_back({.distance = near, .count = window - near});
    window = near;
  }
  return hops;
}

std::vector<Hop> bruck_hops(int ranks) {
  std::vector<Hop> hops;
  for (auto d = static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) / 2; d > 0; d /= 2) {
    hops.push_back({.distance = d, .count = std::min(d, ranks - d)});
  }
  return hops;
}

std::vector<Hop> pat_hops(int ranks) {
  std::vector<Hop> hops;
  for (int d = 1; d < ranks; d *= 2) {
    hops.push_back({.distance = d, .count = (ranks - 1 - d) / (2 * d) + 1, .stride = 2 * d});
  }
  return hops;
}

// All lanes send before any lane waits: one thread that runs them keeps every link busy.
Schedule hop_reduce_scatter(const Parameters& p, int rank, const std::vector<Hop>& hops) {
  Builder builder(rank);
  std::vector<ReducingLane> lanes;
  for (uint16_t lane = 0; lane < p.lanes; ++lane) {
    lanes.emplace_back(builder, Ring::of(p, lane), rank);
    builder.lane(lane);
    if (p.ranks == 1) builder.copy(output(lane), input(lane));
  }
  for (const Hop& hop : hops) {
    for (ReducingLane& lane : lanes) lane.send(hop);
    for (ReducingLane& lane : lanes) lane.reduce(hop);
  }
  return std::move(builder).finish();
}

Schedule hop_all_gather(const Parameters& p, int rank, const std::vector<Hop>& hops) {
  Builder builder(rank);
  std::vector<std::vector<Block>> shares;  // of each lane, by offset from this rank
  for (uint16_t lane = 0; lane < p.lanes; ++lane) {
    shares.push_back(Ring::of(p, lane).parts_from(rank, Space::kOutput));
    shares[lane][0] = input(lane);
  }
  const auto of_hop = [&](uint16_t lane, const Hop& hop, int begin) {
    std::vector<Block> blocks;
    for (int i = 0; i < hop.count; ++i) blocks.push_back(shares[lane][begin + hop.offset(i)]);
    return blocks;
  };
  for (auto hop = hops.rbegin(); hop != hops.rend(); ++hop) {
    for (uint16_t lane = 0; lane < p.lanes; ++lane) {
      builder.lane(lane);
      builder.send(of_hop(lane, *hop, 0), Ring::of(p, lane).at(rank, -hop->distance));
    }
    for (uint16_t lane = 0; lane < p.lanes; ++lane) {
      builder.lane(lane);
      builder.receive(of_hop(lane, *hop, hop->distance), Ring::of(p, lane).at(rank, hop->distance));
    }
  }
  for (uint16_t lane = 0; lane < p.lanes; ++lane) {
    builder.lane(lane);
    builder.copy(output(Ring::of(p, lane).part(rank)), input(lane));
  }
  return std::move(builder).finish();
}

// Where sums arrive, but for the own share: of all rounds, the one with the most has all offsets.
Cost hop_reduce_scatter_cost(const Parameters& p, const std::vector<Hop>& hops) {
  int most = 1;
  for (const Hop& hop : hops) most = std::max(most, hop.count);
  return cost_of(p, hops, most - 1);
}

Cost hop_all_gather_cost(const Parameters& p, const std::vector<Hop>& hops) {
  return cost_of(p, hops, 0);
}

Algorithm hop_algorithm(Algorithm described) {
  const bool reduces = described.collective == Collective::kReduceScatter;
  described.max_lanes = 8;
  described.shape =
      reduces ? shape_of<Collective::kReduceScatter> : shape_of<Collective::kAllGather>;
  return described;
}

}  // namespace tutti::algorithms::patterns
