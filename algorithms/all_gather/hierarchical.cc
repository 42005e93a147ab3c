#include "algorithms/all_gather/hierarchical.h"

#include "algorithms/all_gather/circulant.h"
#include "algorithms/patterns/hierarchy.h"

namespace tutti::algorithms::all_gather {

namespace {

constexpr patterns::Levels kLevels = {.all_gather = all_gather::circulant};

}  // namespace

schedule::Algorithm hierarchical() {
  return patterns::hierarchy<schedule::Collective::kAllGather, kLevels>({
      .name = "hierarchical",
      .summary = "level by level: spread shares inwards from the outermost nodes of the tree",
      .wins = "large counts on hosts with a slow network between them",
      .source = "Traeff, Hunold 2020 (full lanes); teams of uneven siblings: this library",
  });
}

}  // namespace tutti::algorithms::all_gather
