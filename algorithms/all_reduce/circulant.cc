#include "algorithms/all_reduce/circulant.h"

#include "algorithms/all_gather/circulant.h"
#include "algorithms/patterns/compose.h"
#include "algorithms/reduce_scatter/circulant.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm circulant() {
  return patterns::compose<schedule::Collective::kAllReduce, reduce_scatter::circulant,
                           all_gather::circulant>({
      .name = "circulant",
      .summary = "half of the shares a round: folded together, then spread again",
      .wins = "middle counts over a network, any number of ranks",
      .source = "Traeff 2024",
  });
}

}  // namespace tutti::algorithms::all_reduce
