#include "algorithms/all_reduce/two_shot.h"

#include "algorithms/all_gather/direct.h"
#include "algorithms/patterns/compose.h"
#include "algorithms/reduce_scatter/direct.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm two_shot() {
  return patterns::compose<schedule::Collective::kAllReduce, reduce_scatter::direct,
                           all_gather::direct>({
      .name = "two_shot",
      .summary = "every rank reduces one n-th in one pass and publishes it",
      .wins = "shared memory, middle and large counts",
      .source = "folklore",
  });
}

}  // namespace tutti::algorithms::all_reduce
