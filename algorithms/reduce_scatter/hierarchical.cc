#include "algorithms/reduce_scatter/hierarchical.h"

#include "algorithms/patterns/hierarchy.h"
#include "algorithms/reduce_scatter/circulant.h"

namespace tutti::algorithms::reduce_scatter {

namespace {

constexpr patterns::Levels kLevels = {.reduce_scatter = reduce_scatter::circulant};

}  // namespace

schedule::Algorithm hierarchical() {
  return patterns::hierarchy<schedule::Collective::kReduceScatter, kLevels>({
      .name = "hierarchical",
      .summary = "level by level: fold halves outwards over the nodes of the tree",
      .wins = "large counts on hosts with a slow network between them",
      .source = "Traeff, Hunold 2020 (full lanes); teams of uneven siblings: this library",
  });
}

}  // namespace tutti::algorithms::reduce_scatter
