#include "tests/random/issue.h"

#include <vector>

namespace tutti::random_calls {

using reference::Collective;

namespace {

/// One side of a v-collective, as the caller of the library passes it; gone as soon as it returns.
struct Vectors {
  Vectors(const reference::Problem& p, bool output, int rank) {
    for (int peer = 0; peer < p.ranks; ++peer) {
      counts.push_back(output ? reference::share(p, peer, rank) : reference::share(p, rank, peer));
      places.push_back(reference::offset(p, output, rank, peer));
    }
    offsets = p.gap == 0 ? nullptr : places.data();
  }

  std::vector<size_t> counts, places;
  const size_t* offsets;  // null: packed
};

tuttiResult_t issue_vectors(const reference::Problem& p, const void* send, void* recv,
                            tuttiComm_t comm, tuttiStream_t stream) {
  int rank = 0;
  if (tuttiResult_t result = tuttiCommUserRank(comm, &rank); result != tuttiSuccess) return result;
  const Vectors sends(p, false, rank), receives(p, true, rank);
  switch (p.collective) {
    case Collective::kAllGatherV:
      return tuttiAllGatherV(send, sends.counts[0], recv, receives.counts.data(), receives.offsets,
                             p.type, comm, stream);
    case Collective::kReduceScatterV:
      return tuttiReduceScatterV(send, recv, sends.counts.data(), p.type, p.op, comm, stream);
    default:
      return tuttiAllToAllV(send, sends.counts.data(), sends.offsets, recv, receives.counts.data(),
                            receives.offsets, p.type, comm, stream);
  }
}

}  // namespace

tuttiResult_t issue(const reference::Problem& p, const void* send, void* recv, tuttiComm_t comm,
                    tuttiStream_t stream) {
  switch (p.collective) {
    case Collective::kAllReduce:
      return tuttiAllReduce(send, recv, p.count, p.type, p.op, comm, stream);
    case Collective::kAllGather:
      return tuttiAllGather(send, recv, p.count, p.type, comm, stream);
    case Collective::kReduceScatter:
      return tuttiReduceScatter(send, recv, p.count, p.type, p.op, comm, stream);
    case Collective::kBroadcast:
      return tuttiBroadcast(send, recv, p.count, p.type, p.root, comm, stream);
    case Collective::kReduce:
      return tuttiReduce(send, recv, p.count, p.type, p.op, p.root, comm, stream);
    case Collective::kGather:
      return tuttiGather(send, recv, p.count, p.type, p.root, comm, stream);
    case Collective::kScatter:
      return tuttiScatter(send, recv, p.count, p.type, p.root, comm, stream);
    case Collective::kAllToAll:
      return tuttiAllToAll(send, recv, p.count, p.type, comm, stream);
    case Collective::kAllGatherV:
    case Collective::kReduceScatterV:
    case Collective::kAllToAllV:
      return issue_vectors(p, send, recv, comm, stream);
    case Collective::kBarrier:
      return tuttiBarrier(comm, stream);
  }
  return tuttiInternalError;
}

}  // namespace tutti::random_calls
