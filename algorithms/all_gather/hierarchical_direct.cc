#include "algorithms/all_gather/hierarchical_direct.h"

#include "algorithms/all_gather/direct.h"
#include "algorithms/patterns/hierarchy.h"

namespace tutti::algorithms::all_gather {

namespace {

constexpr patterns::Levels kLevels = {.all_gather = all_gather::direct};

}  // namespace

schedule::Algorithm hierarchical_direct() {
  return patterns::hierarchy<schedule::Collective::kAllGather, kLevels>({
      .name = "hierarchical_direct",
      .summary = "level by level like hierarchical, with one round among the children of a node",
      .wins = "middle and large counts on few hosts",
      .source = "Traeff, Hunold 2020 (full lanes); teams of uneven siblings: this library",
  });
}

}  // namespace tutti::algorithms::all_gather
