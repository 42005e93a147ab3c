// The collectives, on host buffers.
#include "plugins/nccl/caught.h"
#include "plugins/nccl/comm.h"

using namespace tutti::nccl;

extern "C" {

ncclResult_t pncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                            ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  return caught([&]() -> ncclResult_t {
    const void* const buffers[] = {send, recv};
    return operate(comm, "ncclAllReduce", buffers, [&](tuttiComm_t tutti) {
      return tuttiAllReduce(send, recv, count, type_of(type), op_of(op), tutti, tuttiBlocking());
    });
  });
}

ncclResult_t pncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type,
                            int root, ncclComm_t comm, cudaStream_t) {
  return caught([&]() -> ncclResult_t {
    const void* const buffers[] = {send, recv};
    return operate(comm, "ncclBroadcast", buffers, [&](tuttiComm_t tutti) {
      return tuttiBroadcast(send, recv, count, type_of(type), root, tutti, tuttiBlocking());
    });
  });
}

// Not by pncclBroadcast: beside NCCL, an entry point that is called here may be NCCL's.
ncclResult_t pncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t) {
  return caught([&]() -> ncclResult_t {
    const void* const buffers[] = {buffer};
    return operate(comm, "ncclBcast", buffers, [&](tuttiComm_t tutti) {
      return tuttiBroadcast(buffer, buffer, count, type_of(type), root, tutti, tuttiBlocking());
    });
  });
}

ncclResult_t pncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                         ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t) {
  return caught([&]() -> ncclResult_t {
    const void* const buffers[] = {send, recv};
    return operate(comm, "ncclReduce", buffers, [&](tuttiComm_t tutti) {
      return tuttiReduce(send, recv, count, type_of(type), op_of(op), root, tutti, tuttiBlocking());
    });
  });
}

ncclResult_t pncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                            ncclComm_t comm, cudaStream_t) {
  return caught([&]() -> ncclResult_t {
    const void* const buffers[] = {send, recv};
    return operate(comm, "ncclAllGather", buffers, [&](tuttiComm_t tutti) {
      return tuttiAllGather(send, recv, count, type_of(type), tutti, tuttiBlocking());
    });
  });
}

ncclResult_t pncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  return caught([&]() -> ncclResult_t {
    const void* const buffers[] = {send, recv};
    return operate(comm, "ncclReduceScatter", buffers, [&](tuttiComm_t tutti) {
      return tuttiReduceScatter(send, recv, count, type_of(type), op_of(op), tutti,
                                tuttiBlocking());
    });
  });
}

ncclResult_t pncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t) {
  return caught([&]() -> ncclResult_t {
    const void* const buffers[] = {send, recv};
    return operate(comm, "ncclAlltoAll", buffers, [&](tuttiComm_t tutti) {
      return tuttiAllToAll(send, recv, count, type_of(type), tutti, tuttiBlocking());
    });
  });
}

ncclResult_t pncclGather(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                         ncclComm_t comm, cudaStream_t) {
  return caught([&]() -> ncclResult_t {
    const void* const buffers[] = {send, recv};
    return operate(comm, "ncclGather", buffers, [&](tuttiComm_t tutti) {
      return tuttiGather(send, recv, count, type_of(type), root, tutti, tuttiBlocking());
    });
  });
}

ncclResult_t pncclScatter(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                          ncclComm_t comm, cudaStream_t) {
  return caught([&]() -> ncclResult_t {
    const void* const buffers[] = {send, recv};
    return operate(comm, "ncclScatter", buffers, [&](tuttiComm_t tutti) {
      return tuttiScatter(send, recv, count, type_of(type), root, tutti, tuttiBlocking());
    });
  });
}

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  return caught([&]() -> ncclResult_t {
    constexpr char kName[] = "ncclRedOpCreatePreMulSum";
    if (const ncclResult_t bad = check_usable(comm, kName); bad != ncclSuccess) return bad;
    if (op == nullptr) return refuse(kName, "the place for the operation is null");
    const void* const memory[] = {scalar};
    if (const ncclResult_t bad = check_host_memory(memory, kName); bad != ncclSuccess) return bad;
    const int where = number_of(residence);
    if (where != ncclScalarDevice && where != ncclScalarHostImmediate) {
      return refuse(kName, "residence is neither ncclScalarDevice nor ncclScalarHostImmediate");
    }
    tuttiRedOp_t made = tuttiSum;
    const ncclResult_t result = translate(tuttiRedOpCreatePreMulSum(
        &made, scalar, type_of(type), static_cast<tuttiScalarResidence_t>(where), comm->tutti));
    if (result == ncclSuccess) *op = static_cast<ncclRedOp_t>(made);
    return result;
  });
}

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return caught([&]() -> ncclResult_t {
    return ask(comm, "ncclRedOpDestroy",
               [&](tuttiComm_t tutti) { return tuttiRedOpDestroy(op_of(op), tutti); });
  });
}

[[gnu::weak, gnu::alias("pncclAllReduce")]] decltype(pncclAllReduce) ncclAllReduce;
[[gnu::weak, gnu::alias("pncclBroadcast")]] decltype(pncclBroadcast) ncclBroadcast;
[[gnu::weak, gnu::alias("pncclBcast")]] decltype(pncclBcast) ncclBcast;
[[gnu::weak, gnu::alias("pncclReduce")]] decltype(pncclReduce) ncclReduce;
[[gnu::weak, gnu::alias("pncclAllGather")]] decltype(pncclAllGather) ncclAllGather;
[[gnu::weak, gnu::alias("pncclReduceScatter")]] decltype(pncclReduceScatter) ncclReduceScatter;
[[gnu::weak, gnu::alias("pncclAlltoAll")]] decltype(pncclAlltoAll) ncclAlltoAll;
[[gnu::weak, gnu::alias("pncclGather")]] decltype(pncclGather) ncclGather;
[[gnu::weak, gnu::alias("pncclScatter")]] decltype(pncclScatter) ncclScatter;
[[gnu::weak,
  gnu::alias(
      "pncclRedOpCreatePreMulSum")]] decltype(pncclRedOpCreatePreMulSum) ncclRedOpCreatePreMulSum;
[[gnu::weak, gnu::alias("pncclRedOpDestroy")]] decltype(pncclRedOpDestroy) ncclRedOpDestroy;

}  // extern "C"
