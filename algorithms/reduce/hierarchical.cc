#include "algorithms/reduce/hierarchical.h"

#include "algorithms/patterns/hierarchy.h"
#include "algorithms/reduce/binomial.h"
#include "algorithms/reduce_scatter/circulant.h"

namespace tutti::algorithms::reduce {

namespace {

constexpr patterns::Levels kLevels = {.reduce_scatter = reduce_scatter::circulant,
                                      .reduce = reduce::binomial};

}  // namespace

schedule::Algorithm hierarchical() {
  return patterns::hierarchy<schedule::Collective::kReduce, kLevels>({
      .name = "hierarchical",
      .summary = "reduce-scatters in the nodes without the root, then binomial trees inwards to it",
      .wins = "large counts on hosts with a slow network between them",
      .source = "Traeff, Hunold 2020 (full lanes); teams of uneven siblings: this library",
  });
}

}  // namespace tutti::algorithms::reduce
