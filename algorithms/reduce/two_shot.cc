#include "algorithms/reduce/two_shot.h"

#include "algorithms/gather/direct.h"
#include "algorithms/patterns/compose.h"
#include "algorithms/reduce_scatter/direct.h"

namespace tutti::algorithms::reduce {

schedule::Algorithm two_shot() {
  return patterns::compose<schedule::Collective::kReduce, reduce_scatter::direct, gather::direct>({
      .name = "two_shot",
      .summary = "every rank reduces one n-th in one pass, the root collects",
      .wins = "shared memory, middle and large counts",
      .source = "folklore",
  });
}

}  // namespace tutti::algorithms::reduce
