#include "algorithms/all_gather/bruck.h"

#include "algorithms/patterns/hops.h"

namespace tutti::algorithms::all_gather {

schedule::Algorithm bruck() {
  return patterns::all_gather_by<patterns::bruck_hops>({
      .name = "bruck",
      .summary = "in round k every rank passes on the 2^k shares it has",
      .wins = "small counts over a network; the yardstick for circulant",
      .source = "Bruck, Ho, Kipnis, Upfal, Weathersby 1997",
  });
}

}  // namespace tutti::algorithms::all_gather
