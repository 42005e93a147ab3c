// Send, receive, and groups.
#include "plugins/nccl/caught.h"
#include "plugins/nccl/comm.h"

using namespace tutti::nccl;

extern "C" {

ncclResult_t pncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                       ncclComm_t comm, cudaStream_t stream) {
  return caught([&]() -> ncclResult_t {
    return operate(comm, "ncclSend", {{send}, stream}, [&](tuttiComm_t tutti, tuttiStream_t where) {
      return tuttiSend(send, count, type_of(type), peer, tutti, where);
    });
  });
}

ncclResult_t pncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
  return caught([&]() -> ncclResult_t {
    return operate(comm, "ncclRecv", {{recv}, stream}, [&](tuttiComm_t tutti, tuttiStream_t where) {
      return tuttiRecv(recv, count, type_of(type), peer, tutti, where);
    });
  });
}

ncclResult_t pncclGroupStart() {
  return caught([&] { return start_group(); });
}

ncclResult_t pncclGroupEnd() {
  return caught([&] { return end_group(); });
}

ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* info) {
  return caught([&]() -> ncclResult_t {
    constexpr char kName[] = "ncclGroupSimulateEnd";
    if (!in_group()) return misuse(kName, "there is no ncclGroupStart before it");
    if (is_outermost() && info != nullptr && info->magic != NCCL_SIM_INFO_MAGIC) {
      discard_group();
      return refuse(kName, "begin with NCCL_SIM_INFO_INITIALIZER");
    }
    uint64_t nanoseconds = 0;
    const ncclResult_t result = simulate_group(&nanoseconds);
    constexpr float kPerMicrosecond = 1000;
    if (info != nullptr && result == ncclSuccess) {
      info->estimatedTime = static_cast<float>(nanoseconds) / kPerMicrosecond;
    }
    return result;
  });
}

[[gnu::weak, gnu::alias("pncclSend")]] decltype(pncclSend) ncclSend;
[[gnu::weak, gnu::alias("pncclRecv")]] decltype(pncclRecv) ncclRecv;
[[gnu::weak, gnu::alias("pncclGroupStart")]] decltype(pncclGroupStart) ncclGroupStart;
[[gnu::weak, gnu::alias("pncclGroupEnd")]] decltype(pncclGroupEnd) ncclGroupEnd;
[[gnu::weak,
  gnu::alias("pncclGroupSimulateEnd")]] decltype(pncclGroupSimulateEnd) ncclGroupSimulateEnd;

}  // extern "C"
