// The collectives, on buffers of the host or of a GPU.
#include "plugins/nccl/caught.h"
#include "plugins/nccl/comm.h"

using namespace tutti::nccl;

extern "C" {

ncclResult_t pncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return caught([&]() -> ncclResult_t {
    return operate(comm, "ncclAllReduce", {{send, recv}, stream, number_of(op)},
                   [&](tuttiComm_t tutti, tuttiStream_t where) {
                     return tuttiAllReduce(send, recv, count, type_of(type), op_of(op), tutti,
                                           where);
                   });
  });
}

ncclResult_t pncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type,
                            int root, ncclComm_t comm, cudaStream_t stream) {
  return caught([&]() -> ncclResult_t {
    return operate(comm, "ncclBroadcast", {{send, recv}, stream},
                   [&](tuttiComm_t tutti, tuttiStream_t where) {
                     return tuttiBroadcast(send, recv, count, type_of(type), root, tutti, where);
                   });
  });
}

// Not by pncclBroadcast: beside NCCL, an entry point that is called here may be NCCL's.
ncclResult_t pncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return caught([&]() -> ncclResult_t {
    return operate(
        comm, "ncclBcast", {{buffer}, stream}, [&](tuttiComm_t tutti, tuttiStream_t where) {
          return tuttiBroadcast(buffer, buffer, count, type_of(type), root, tutti, where);
        });
  });
}

ncclResult_t pncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                         ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return caught([&]() -> ncclResult_t {
    return operate(comm, "ncclReduce", {{send, recv}, stream, number_of(op)},
                   [&](tuttiComm_t tutti, tuttiStream_t where) {
                     return tuttiReduce(send, recv, count, type_of(type), op_of(op), root, tutti,
                                        where);
                   });
  });
}

ncclResult_t pncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                            ncclComm_t comm, cudaStream_t stream) {
  return caught([&]() -> ncclResult_t {
    return operate(comm, "ncclAllGather", {{send, recv}, stream},
                   [&](tuttiComm_t tutti, tuttiStream_t where) {
                     return tuttiAllGather(send, recv, count, type_of(type), tutti, where);
                   });
  });
}

ncclResult_t pncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return caught([&]() -> ncclResult_t {
    return operate(comm, "ncclReduceScatter", {{send, recv}, stream, number_of(op)},
                   [&](tuttiComm_t tutti, tuttiStream_t where) {
                     return tuttiReduceScatter(send, recv, count, type_of(type), op_of(op), tutti,
                                               where);
                   });
  });
}

ncclResult_t pncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return caught([&]() -> ncclResult_t {
    return operate(comm, "ncclAlltoAll", {{send, recv}, stream},
                   [&](tuttiComm_t tutti, tuttiStream_t where) {
                     return tuttiAllToAll(send, recv, count, type_of(type), tutti, where);
                   });
  });
}

ncclResult_t pncclGather(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  return caught([&]() -> ncclResult_t {
    return operate(comm, "ncclGather", {{send, recv}, stream},
                   [&](tuttiComm_t tutti, tuttiStream_t where) {
                     return tuttiGather(send, recv, count, type_of(type), root, tutti, where);
                   });
  });
}

ncclResult_t pncclScatter(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                          ncclComm_t comm, cudaStream_t stream) {
  return caught([&]() -> ncclResult_t {
    return operate(comm, "ncclScatter", {{send, recv}, stream},
                   [&](tuttiComm_t tutti, tuttiStream_t where) {
                     return tuttiScatter(send, recv, count, type_of(type), root, tutti, where);
                   });
  });
}

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  return caught([&]() -> ncclResult_t {
    constexpr char kName[] = "ncclRedOpCreatePreMulSum";
    if (const ncclResult_t bad = check_usable(comm, kName); bad != ncclSuccess) return bad;
    if (op == nullptr) return refuse(kName, "the place for the operation is null");
    const int where = number_of(residence);
    if (where != ncclScalarDevice && where != ncclScalarHostImmediate) {
      return refuse(kName, "residence is neither ncclScalarDevice nor ncclScalarHostImmediate");
    }
    const bool in_memory = where == ncclScalarDevice;
    if (!in_memory && is_device_memory(scalar)) {
      return refuse(kName, "the scalar lies in the memory of a GPU: pass ncclScalarDevice");
    }
    tuttiRedOp_t made = tuttiSum;
    const ncclResult_t result = translate(tuttiRedOpCreatePreMulSum(
        &made, scalar, type_of(type), static_cast<tuttiScalarResidence_t>(where), comm->tutti));
    if (result != ncclSuccess) return result;
    *op = static_cast<ncclRedOp_t>(made);
    if (!in_memory) return result;
    const std::lock_guard lock(comm->mutex);
    comm->scalars[number_of(*op)] = scalar;
    return result;
  });
}

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return caught([&]() -> ncclResult_t {
    const ncclResult_t result = ask(comm, "ncclRedOpDestroy", [&](tuttiComm_t tutti) {
      return tuttiRedOpDestroy(op_of(op), tutti);
    });
    if (result != ncclSuccess) return result;
    const std::lock_guard lock(comm->mutex);
    comm->scalars.erase(number_of(op));
    return result;
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
