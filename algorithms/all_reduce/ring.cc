#include "algorithms/all_reduce/ring.h"

#include "algorithms/all_gather/ring.h"
#include "algorithms/patterns/compose.h"
#include "algorithms/reduce_scatter/ring.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm ring() {
  return patterns::compose<schedule::Collective::kAllReduce, reduce_scatter::ring,
                           all_gather::ring>({
      .name = "ring",
      .summary = "one n-th at a time: once around to be reduced, once around to be spread",
      .wins = "large counts, few ranks, near neighbours",
      .source = "Patarasuk, Yuan 2009",
      .nccl_name = "Ring",
  });
}

}  // namespace tutti::algorithms::all_reduce
