#include "algorithms/reduce/circulant.h"

#include "algorithms/gather/binomial.h"
#include "algorithms/patterns/compose.h"
#include "algorithms/reduce_scatter/circulant.h"

namespace tutti::algorithms::reduce {

schedule::Algorithm circulant() {
  return patterns::compose<schedule::Collective::kReduce, reduce_scatter::circulant,
                           gather::binomial>({
      .name = "circulant",
      .summary = "half of the shares a round folded together, then gathered up a tree",
      .wins = "middle and large counts over a network, any number of ranks",
      .source = "Rabenseifner 2004; Traeff 2024",
  });
}

}  // namespace tutti::algorithms::reduce
