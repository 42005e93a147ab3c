// The functions of NCCL that Tutti calls, as tables: a new one is one row.
#pragma once

#include <cstdint>

#include "src/drivers/nccl/api.h"

/// X(name, parameters): all of them are there in every library that is taken. Streams are those of
/// the CUDA driver.
#define TUTTI_NCCL_FUNCTIONS(X)                                                         \
  X(ncclGetVersion, (int*))                                                             \
  X(ncclGetUniqueId, (NcclId*))                                                         \
  X(ncclCommInitRankConfig, (NcclComm*, int, NcclId, int, NcclConfig*))                 \
  X(ncclCommFinalize, (NcclComm))                                                       \
  X(ncclCommDestroy, (NcclComm))                                                        \
  X(ncclCommAbort, (NcclComm))                                                          \
  X(ncclCommGetAsyncError, (NcclComm, NcclResult*))                                     \
  X(ncclGroupStart, ())                                                                 \
  X(ncclGroupEnd, ())                                                                   \
  X(ncclAllReduce, (const void*, void*, size_t, NcclType, NcclOp, NcclComm, void*))     \
  X(ncclReduce, (const void*, void*, size_t, NcclType, NcclOp, int, NcclComm, void*))   \
  X(ncclBroadcast, (const void*, void*, size_t, NcclType, int, NcclComm, void*))        \
  X(ncclAllGather, (const void*, void*, size_t, NcclType, NcclComm, void*))             \
  X(ncclReduceScatter, (const void*, void*, size_t, NcclType, NcclOp, NcclComm, void*)) \
  X(ncclSend, (const void*, size_t, NcclType, int, NcclComm, void*))                    \
  X(ncclRecv, (void*, size_t, NcclType, int, NcclComm, void*))                          \
  X(ncclRedOpCreatePreMulSum, (NcclOp*, void*, NcclType, int, NcclComm))                \
  X(ncclRedOpDestroy, (NcclOp, NcclComm))

/// X(name, result, parameters): may be missing, and are null then. ncclGetLastError gives text.
#define TUTTI_NCCL_MORE_FUNCTIONS(X)                                                   \
  X(ncclGetErrorString, const char*, (NcclResult))                                     \
  X(ncclGetLastError, const char*, (NcclComm))                                         \
  X(ncclAlltoAll, NcclResult, (const void*, void*, size_t, NcclType, NcclComm, void*)) \
  X(ncclCommMemStats, NcclResult, (NcclComm, NcclMemoryFact, uint64_t*))               \
  X(ncclCommSuspend, NcclResult, (NcclComm, int))                                      \
  X(ncclCommResume, NcclResult, (NcclComm))

namespace tutti::drivers::nccl::api {

struct NcclFunctions {
#define TUTTI_NCCL_FIELD(name, parameters) NcclResult(*name) parameters = nullptr;
  TUTTI_NCCL_FUNCTIONS(TUTTI_NCCL_FIELD)
#undef TUTTI_NCCL_FIELD
#define TUTTI_NCCL_MORE_FIELD(name, result, parameters) result(*name) parameters = nullptr;
  TUTTI_NCCL_MORE_FUNCTIONS(TUTTI_NCCL_MORE_FIELD)
#undef TUTTI_NCCL_MORE_FIELD
};

}  // namespace tutti::drivers::nccl::api
