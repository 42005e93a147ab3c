#include "src/comm/request.h"

namespace tutti::comm {

using schedule::Collective;

const char* vector_name_of(Collective collective) {
  switch (collective) {
    case Collective::kAllGather:
      return "all_gather_v";
    case Collective::kReduceScatter:
      return "reduce_scatter_v";
    case Collective::kAllToAll:
      return "all_to_all_v";
    default:
      return "";
  }
}

}  // namespace tutti::comm
