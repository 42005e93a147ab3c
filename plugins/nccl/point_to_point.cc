// Send, receive, one-sided, and groups.
#include "plugins/nccl/comm.h"

using namespace tutti::nccl;

namespace {

constexpr char kNotYet[] = "this build of Tutti does not have it";

}  // namespace

extern "C" {

ncclResult_t pncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                       ncclComm_t comm, cudaStream_t) {
  const void* const buffers[] = {send};
  return operate(comm, "ncclSend", buffers, [=](tuttiComm_t tutti) {
    return tuttiSend(send, count, type_of(type), peer, tutti, tuttiBlocking());
  });
}

ncclResult_t pncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t) {
  const void* const buffers[] = {recv};
  return operate(comm, "ncclRecv", buffers, [=](tuttiComm_t tutti) {
    return tuttiRecv(recv, count, type_of(type), peer, tutti, tuttiBlocking());
  });
}

ncclResult_t pncclPutSignal(const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int,
                            int, unsigned int, ncclComm_t comm, cudaStream_t) {
  const ncclResult_t bad = check_usable(comm, "ncclPutSignal");
  return bad != ncclSuccess ? bad : unsupported("ncclPutSignal", kNotYet);
}

ncclResult_t pncclSignal(int, int, int, unsigned int, ncclComm_t comm, cudaStream_t) {
  const ncclResult_t bad = check_usable(comm, "ncclSignal");
  return bad != ncclSuccess ? bad : unsupported("ncclSignal", kNotYet);
}

ncclResult_t pncclWaitSignal(int, ncclWaitSignalDesc_t*, ncclComm_t comm, cudaStream_t) {
  const ncclResult_t bad = check_usable(comm, "ncclWaitSignal");
  return bad != ncclSuccess ? bad : unsupported("ncclWaitSignal", kNotYet);
}

ncclResult_t pncclGroupStart() { return start_group(); }

ncclResult_t pncclGroupEnd() { return end_group(); }

ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* info) {
  constexpr char kName[] = "ncclGroupSimulateEnd";
  if (!in_group()) return misuse(kName, "there is no ncclGroupStart before it");
  discard_group();  // a simulated group does not run
  if (info == nullptr) return ncclSuccess;
  if (info->magic != NCCL_SIM_INFO_MAGIC) {
    return refuse(kName, "begin with NCCL_SIM_INFO_INITIALIZER");
  }
  info->estimatedTime = NCCL_UNDEF_FLOAT;
  return ncclSuccess;
}

[[gnu::weak, gnu::alias("pncclSend")]] decltype(pncclSend) ncclSend;
[[gnu::weak, gnu::alias("pncclRecv")]] decltype(pncclRecv) ncclRecv;
[[gnu::weak, gnu::alias("pncclPutSignal")]] decltype(pncclPutSignal) ncclPutSignal;
[[gnu::weak, gnu::alias("pncclSignal")]] decltype(pncclSignal) ncclSignal;
[[gnu::weak, gnu::alias("pncclWaitSignal")]] decltype(pncclWaitSignal) ncclWaitSignal;
[[gnu::weak, gnu::alias("pncclGroupStart")]] decltype(pncclGroupStart) ncclGroupStart;
[[gnu::weak, gnu::alias("pncclGroupEnd")]] decltype(pncclGroupEnd) ncclGroupEnd;
[[gnu::weak,
  gnu::alias("pncclGroupSimulateEnd")]] decltype(pncclGroupSimulateEnd) ncclGroupSimulateEnd;

}  // extern "C"
