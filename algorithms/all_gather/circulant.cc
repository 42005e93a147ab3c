#include "algorithms/all_gather/circulant.h"

#include "algorithms/patterns/hops.h"

namespace tutti::algorithms::all_gather {

schedule::Algorithm circulant() {
  return patterns::all_gather_by<patterns::circulant_hops>({
      .name = "circulant",
      .summary = "in each round one message with up to all shares that a rank has",
      .wins = "small and middle counts over a network, any number of ranks",
      .source = "Bruck et al. 1997; Traeff 2024",
  });
}

}  // namespace tutti::algorithms::all_gather
