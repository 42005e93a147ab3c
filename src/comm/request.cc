#include "src/comm/request.h"

#include <algorithm>

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

bool is_in_place(const Request& vectors, int rank) {
  const CountView& view = *vectors.counts;
  // Numbers: a buffer without elements may be null, wherever its shares are said to be.
  const auto send = reinterpret_cast<uintptr_t>(vectors.send);
  const auto recv = reinterpret_cast<uintptr_t>(vectors.recv);
  const uint64_t size = types::size_of(vectors.type);
  const auto own = static_cast<uint32_t>(rank);
  if (view.send_counts == nullptr) {
    return send == recv + offset_of(view, view.recv_counts, view.recv_offsets, own) * size;
  }
  if (view.recv_counts == nullptr) {
    return recv == send + offset_of(view, view.send_counts, view.send_offsets, own) * size;
  }
  const auto same = [&](const uint64_t* a, const uint64_t* b) {
    return a == b || (a != nullptr && b != nullptr && std::equal(a, a + view.ranks, b));
  };
  return send == recv && same(view.send_counts, view.recv_counts) &&
         same(view.send_offsets, view.recv_offsets);
}

}  // namespace tutti::comm
