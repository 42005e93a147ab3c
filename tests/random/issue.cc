#include "tests/random/issue.h"

namespace tutti::random_calls {

using reference::Collective;

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
    case Collective::kBarrier:
      return tuttiBarrier(comm, stream);
  }
  return tuttiInternalError;
}

}  // namespace tutti::random_calls
