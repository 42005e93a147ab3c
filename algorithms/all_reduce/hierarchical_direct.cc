#include "algorithms/all_reduce/hierarchical_direct.h"

#include "algorithms/all_gather/direct.h"
#include "algorithms/patterns/hierarchy.h"
#include "algorithms/reduce_scatter/direct.h"

namespace tutti::algorithms::all_reduce {

namespace {

constexpr patterns::Levels kLevels = {.reduce_scatter = reduce_scatter::direct,
                                      .all_gather = all_gather::direct};

}  // namespace

schedule::Algorithm hierarchical_direct() {
  return patterns::hierarchy<schedule::Collective::kAllReduce, kLevels>({
      .name = "hierarchical_direct",
      .summary = "level by level like hierarchical, with one round among the children of a node",
      .wins = "middle and large counts on few hosts; deterministic",
      .source = "Traeff, Hunold 2020 (full lanes); teams of uneven siblings: this library",
  });
}

}  // namespace tutti::algorithms::all_reduce
