#include "algorithms/broadcast/hierarchical.h"

#include "algorithms/all_gather/circulant.h"
#include "algorithms/broadcast/binomial.h"
#include "algorithms/patterns/hierarchy.h"

namespace tutti::algorithms::broadcast {

namespace {

constexpr patterns::Levels kLevels = {.all_gather = all_gather::circulant,
                                      .broadcast = broadcast::binomial};

}  // namespace

schedule::Algorithm hierarchical() {
  return patterns::hierarchy<schedule::Collective::kBroadcast, kLevels>({
      .name = "hierarchical",
      .summary = "outwards by binomial trees over the nodes with the root, inwards by all-gathers",
      .wins = "large counts on hosts with a slow network between them",
      .source = "Traeff, Hunold 2020 (full lanes); teams of uneven siblings: this library",
  });
}

}  // namespace tutti::algorithms::broadcast
