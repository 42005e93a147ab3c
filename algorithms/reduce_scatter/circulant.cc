#include "algorithms/reduce_scatter/circulant.h"

#include <algorithm>
#include <vector>

#include "algorithms/patterns/circulant.h"
#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/ring.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::reduce_scatter {

using namespace schedule;
using patterns::Hop;
using patterns::Ring;

namespace {

Shape shape_of(const Parameters& p) {
  return {.collective = Collective::kReduceScatter,
          .ranks = p.ranks,
          .lanes = p.lanes,
          .input = Partition::equal(static_cast<uint32_t>(p.ranks) * p.lanes),
          .output = Partition::equal(p.lanes)};
}

// What one lane of this rank does. `shares_` are the newest values of all shares that have not left
// yet, by offset from this rank: inputs at first, sums later.
class Lane {
 public:
  Lane(Builder& builder, const Ring& ring, int rank)
      : builder_(builder),
        ring_(ring),
        rank_(rank),
        shares_(ring.parts_from(rank, Space::kInput)) {}

  void send(const Hop& hop) {
    builder_.lane(ring_.lane);
    builder_.send(std::span(shares_).subspan(hop.distance, hop.count),
                  ring_.at(rank_, hop.distance));
    shares_.resize(hop.distance);
  }

  void reduce(const Hop& hop) {
    std::vector<Block> sums(shares_.begin(), shares_.begin() + hop.count);
    for (Block& sum : sums) {
      const bool own = &sum == &sums.front();
      if (sum.space() == Space::kInput) sum = own ? output(ring_.lane) : builder_.scratch(sum);
    }
    const Operand sources[] = {Operand::message(ring_.at(rank_, -hop.distance)),
                               Operand::local(std::span(shares_).first(hop.count))};
    builder_.lane(ring_.lane);
    builder_.move(sums, sources);
    std::copy(sums.begin(), sums.end(), shares_.begin());
  }

 private:
  Builder& builder_;
  Ring ring_;
  int rank_;
  std::vector<Block> shares_;
};

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  std::vector<Lane> lanes;
  for (uint16_t lane = 0; lane < p.lanes; ++lane) {
    lanes.emplace_back(builder, Ring::of(p, lane), rank);
    builder.lane(lane);
    if (p.ranks == 1) builder.copy(output(lane), input(lane));
  }
  for (const Hop& hop : patterns::circulant_hops(p.ranks)) {
    for (Lane& lane : lanes) lane.send(hop);
    for (Lane& lane : lanes) lane.reduce(hop);
  }
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  const auto rounds = static_cast<uint32_t>(patterns::doubling_rounds(p.ranks));
  return {.depth = rounds,
          .messages = rounds * p.lanes,
          .bytes = Fraction::of(p.ranks - 1, 1),
          .published = Fraction::of(p.ranks - 1, 1),
          .scratch = Fraction::of(p.ranks < 4 ? 0 : p.ranks / 2 - 1, 1)};
}

}  // namespace

Algorithm circulant() {
  return {
      .collective = Collective::kReduceScatter,
      .name = "circulant",
      .summary = "in each round one message with half of the shares that are left",
      .wins = "small and middle counts over a network, any number of ranks",
      .source = "Traeff 2024",
      .max_lanes = 8,
      .shape = shape_of,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::reduce_scatter
