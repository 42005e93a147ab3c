#include "algorithms/barrier/dissemination.h"

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::barrier {

using namespace schedule;

namespace {

constexpr std::span<const Block> kNothing;  // a message that says "I am here"

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  for (int distance = 1; distance < p.ranks; distance *= 2) {
    builder.send(kNothing, (rank + distance) % p.ranks);
    builder.receive(kNothing, (rank - distance + p.ranks) % p.ranks);
  }
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  const auto rounds = static_cast<uint32_t>(patterns::doubling_rounds(p.ranks));
  return patterns::balanced(
      p.ranks, {.depth = rounds, .messages = rounds, .bytes = {}, .published = {}, .scratch = {}});
}

}  // namespace

Algorithm dissemination() {
  return {
      .collective = Collective::kBarrier,
      .name = "dissemination",
      .summary = "round k: tell the rank 2^k further, hear from the rank 2^k before",
      .wins = "always",
      .source = "Hensgen, Finkel, Manber 1988",
      .shape = patterns::shape_of<Collective::kBarrier>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::barrier
