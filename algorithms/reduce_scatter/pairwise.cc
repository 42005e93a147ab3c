#include "algorithms/reduce_scatter/pairwise.h"

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::reduce_scatter {

using namespace schedule;

namespace {

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  Block sum = input(rank);
  for (int distance = 1; distance < p.ranks; ++distance) {
    const int target = (rank + distance) % p.ranks;
    const MoveSource sources[] = {MoveSource::local(sum),
                                  MoveSource::message((rank - distance + p.ranks) % p.ranks)};
    builder.send(input(target), target);
    builder.move(output(0), sources);
    sum = output(0);
  }
  if (p.ranks == 1) builder.copy(output(0), sum);
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  Cost cost = patterns::one_round(p.ranks, p.ranks - 1);
  cost.depth = cost.messages;
  return cost;
}

}  // namespace

Algorithm pairwise() {
  return {
      .collective = Collective::kReduceScatter,
      .name = "pairwise",
      .summary = "in round k every rank sends the rank k further its share and adds what arrives",
      .wins = "large counts over a network that many senders to one rank would choke",
      .source = "Thakur, Rabenseifner, Gropp 2005",
      .shape = patterns::shape_of<Collective::kReduceScatter>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::reduce_scatter
