#include "algorithms/all_reduce/hierarchical_one_shot.h"

#include "algorithms/all_gather/direct.h"
#include "algorithms/all_reduce/one_shot.h"
#include "algorithms/patterns/hierarchy.h"
#include "algorithms/reduce_scatter/direct.h"

namespace tutti::algorithms::all_reduce {

namespace {

constexpr patterns::Levels kLevels = {.reduce_scatter = reduce_scatter::direct,
                                      .all_gather = all_gather::direct,
                                      .all_reduce = all_reduce::one_shot};

}  // namespace

schedule::Algorithm hierarchical_one_shot() {
  return patterns::hierarchy<schedule::Collective::kAllReduce, kLevels>({
      .name = "hierarchical_one_shot",
      .summary = "level by level, with one exchange of whole shares among the outermost nodes",
      .wins = "small counts where the outermost links have a long delay",
      .source = "Traeff, Hunold 2020 (full lanes); teams of uneven siblings: this library",
  });
}

}  // namespace tutti::algorithms::all_reduce
