#include "algorithms/all_reduce/hierarchical_doubling.h"

#include "algorithms/all_gather/direct.h"
#include "algorithms/all_reduce/folded_doubling.h"
#include "algorithms/patterns/hierarchy.h"
#include "algorithms/reduce_scatter/direct.h"

namespace tutti::algorithms::all_reduce {

namespace {

constexpr patterns::Levels kLevels = {.reduce_scatter = reduce_scatter::direct,
                                      .all_gather = all_gather::direct,
                                      .all_reduce = all_reduce::folded_doubling};

}  // namespace

schedule::Algorithm hierarchical_doubling() {
  return patterns::hierarchy<schedule::Collective::kAllReduce, kLevels>({
      .name = "hierarchical_doubling",
      .summary = "level by level, with doubling of whole shares among the outermost nodes",
      .wins = "small counts on many hosts",
      .source = "Traeff, Hunold 2020 (full lanes); teams of uneven siblings: this library",
  });
}

}  // namespace tutti::algorithms::all_reduce
