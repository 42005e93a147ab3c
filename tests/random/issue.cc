#include "tests/random/issue.h"

namespace tutti::random_calls {

using reference::Collective;

Vectors::Vectors(const reference::Problem& p, bool output, int rank) {
  for (int peer = 0; peer < p.ranks; ++peer) {
    counts.push_back(output ? reference::share(p, peer, rank) : reference::share(p, rank, peer));
    places.push_back(reference::offset(p, output, rank, peer));
  }
  offsets = p.gap == 0 ? nullptr : places.data();
}

namespace {

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

tuttiResult_t run_plainly(const tuttiCall_t& call, tuttiComm_t comm) {
  const tuttiOptions_t usual = TUTTI_OPTIONS_INITIALIZER;
  return tuttiSubmit(&call, comm, tuttiBlocking(), &usual, nullptr);
}

CallValue::CallValue(const reference::Problem& p, int rank, const void* send, void* recv)
    : sends_(p, false, rank), receives_(p, true, rank) {
  constexpr tuttiCollective_t kCollectives[reference::kCollectives] = {
      tuttiCollAllReduce,  tuttiCollAllGather,      tuttiCollReduceScatter, tuttiCollBroadcast,
      tuttiCollReduce,     tuttiCollGather,         tuttiCollScatter,       tuttiCollAllToAll,
      tuttiCollAllGatherV, tuttiCollReduceScatterV, tuttiCollAllToAllV,     tuttiCollBarrier};
  call_.collective = kCollectives[static_cast<int>(p.collective)];
  call_.send = send;
  call_.recv = recv;
  call_.count = p.collective == Collective::kAllGatherV ? sends_.counts[0] : p.count;
  call_.send_counts = sends_.counts.data();
  call_.send_offsets = sends_.offsets;
  call_.recv_counts = receives_.counts.data();
  call_.recv_offsets = receives_.offsets;
  call_.type = p.type;
  call_.op = p.op;
  call_.root = p.root;
}

}  // namespace tutti::random_calls
