#include "algorithms/reduce_scatter/hierarchical_direct.h"

#include "algorithms/patterns/hierarchy.h"
#include "algorithms/reduce_scatter/direct.h"

namespace tutti::algorithms::reduce_scatter {

namespace {

constexpr patterns::Levels kLevels = {.reduce_scatter = reduce_scatter::direct};

}  // namespace

schedule::Algorithm hierarchical_direct() {
  return patterns::hierarchy<schedule::Collective::kReduceScatter, kLevels>({
      .name = "hierarchical_direct",
      .summary = "level by level like hierarchical, with one round among the children of a node",
      .wins = "middle and large counts on few hosts; deterministic",
      .source = "Traeff, Hunold 2020 (full lanes); teams of uneven siblings: this library",
  });
}

}  // namespace tutti::algorithms::reduce_scatter
