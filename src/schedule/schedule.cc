#include "src/schedule/schedule.h"

namespace tutti::schedule {

const char* name_of(Collective collective) {
  static constexpr const char* kNames[kCollectives] = {"all_reduce", "reduce_scatter", "all_gather",
                                                       "broadcast",  "all_to_all",     "barrier"};
  return kNames[static_cast<int>(collective)];
}

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter;
}

}  // namespace tutti::schedule
