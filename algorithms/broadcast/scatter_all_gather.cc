#include "algorithms/broadcast/scatter_all_gather.h"

#include "algorithms/all_gather/circulant.h"
#include "algorithms/patterns/compose.h"
#include "algorithms/scatter/binomial.h"

namespace tutti::algorithms::broadcast {

schedule::Algorithm scatter_all_gather() {
  return patterns::compose<schedule::Collective::kBroadcast, scatter::binomial,
                           all_gather::circulant>({
      .name = "scatter_all_gather",
      .summary = "the root deals out n-ths down a tree, then everybody collects them",
      .wins = "middle counts over a network, many ranks",
      .source = "van de Geijn 1994; Barnett et al. 1994",
  });
}

}  // namespace tutti::algorithms::broadcast
