#include "algorithms/reduce_scatter/circulant.h"

#include "algorithms/patterns/hops.h"

namespace tutti::algorithms::reduce_scatter {

schedule::Algorithm circulant() {
  return patterns::reduce_scatter_by<patterns::circulant_hops>({
      .name = "circulant",
      .summary = "in each round one message with half of the shares that are left",
      .wins = "small and middle counts over a network, any number of ranks",
      .source = "Traeff 2024",
  });
}

}  // namespace tutti::algorithms::reduce_scatter
