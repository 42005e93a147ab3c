#include "algorithms/all_reduce/hierarchical.h"

#include "algorithms/all_gather/circulant.h"
#include "algorithms/patterns/hierarchy.h"
#include "algorithms/reduce_scatter/circulant.h"

namespace tutti::algorithms::all_reduce {

namespace {

constexpr patterns::Levels kLevels = {.reduce_scatter = reduce_scatter::circulant,
                                      .all_gather = all_gather::circulant};

}  // namespace

schedule::Algorithm hierarchical() {
  return patterns::hierarchy<schedule::Collective::kAllReduce, kLevels>({
      .name = "hierarchical",
      .summary = "level by level: fold halves outwards over the nodes of the tree, spread them "
                 "back inwards",
      .wins = "large counts on hosts with a slow network between them",
      .source = "Traeff, Hunold 2020 (full lanes); teams of uneven siblings: this library",
  });
}

}  // namespace tutti::algorithms::all_reduce
