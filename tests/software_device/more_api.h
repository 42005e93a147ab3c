// The part of the driver's interface that only tests and the software device know: types and
// functions that programs under test use, and Tutti does not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/drivers/cuda/functions.h"

namespace softdev {

using namespace tutti::drivers::cuda::api;  // NOLINT(build/namespaces)

using CUgraphExec = struct CUgraphExec_st*;
struct CUipcMemHandle {
  char reserved[64];
};
struct CUipcEventHandle {
  char reserved[64];
};
/// Why a graph cannot take the place of another one.
struct CUgraphExecUpdateResultInfo {
  int result;
  void* error_node;
  void* error_from_node;
};
inline constexpr CUresult kErrorGraphExecUpdateFailure = static_cast<CUresult>(910);
inline constexpr unsigned kEventInterprocess = 4;
inline constexpr unsigned kIpcLazyPeerAccess = 1;
inline constexpr CUresult kErrorContextIsDestroyed = static_cast<CUresult>(709);

}  // namespace softdev

/// X(name, version, parameters), as TUTTI_CUDA_FUNCTIONS.
#define SOFTDEV_MORE_FUNCTIONS(X)                                                    \
  X(cuDriverGetVersion, 2020, (int*))                                                \
  X(cuCtxSetCurrent, 4000, (CUcontext))                                              \
  X(cuCtxSynchronize, 2000, ())                                                      \
  X(cuMemAlloc, 3020, (CUdeviceptr*, size_t))                                        \
  X(cuMemFree, 3020, (CUdeviceptr))                                                  \
  X(cuMemGetAddressRange, 3020, (CUdeviceptr*, size_t*, CUdeviceptr))                \
  X(cuPointerGetAttribute, 4000, (void*, CUpointer_attribute, CUdeviceptr))          \
  X(cuIpcGetMemHandle, 4010, (CUipcMemHandle*, CUdeviceptr))                         \
  X(cuIpcOpenMemHandle, 11000, (CUdeviceptr*, CUipcMemHandle, unsigned))             \
  X(cuIpcCloseMemHandle, 4010, (CUdeviceptr))                                        \
  X(cuIpcGetEventHandle, 4010, (CUipcEventHandle*, CUevent))                         \
  X(cuIpcOpenEventHandle, 4010, (CUevent*, CUipcEventHandle))                        \
  X(cuMemcpyHtoD, 3020, (CUdeviceptr, const void*, size_t))                          \
  X(cuMemcpyDtoH, 3020, (void*, CUdeviceptr, size_t))                                \
  X(cuMemsetD8, 3020, (CUdeviceptr, unsigned char, size_t))                          \
  X(cuStreamCreate, 2000, (CUstream*, unsigned))                                     \
  X(cuStreamWaitValue32, 11070, (CUstream, CUdeviceptr, uint32_t, unsigned))         \
  X(cuStreamWaitValue64, 11070, (CUstream, CUdeviceptr, uint64_t, unsigned))         \
  X(cuStreamWriteValue32, 11070, (CUstream, CUdeviceptr, uint32_t, unsigned))        \
  X(cuStreamWriteValue64, 11070, (CUstream, CUdeviceptr, uint64_t, unsigned))        \
  X(cuEventSynchronize, 2000, (CUevent))                                             \
  X(cuStreamBeginCapture, 10010, (CUstream, CUstreamCaptureMode))                    \
  X(cuStreamEndCapture, 10000, (CUstream, CUgraph*))                                 \
  X(cuGraphInstantiateWithFlags, 11040, (CUgraphExec*, CUgraph, unsigned long long)) \
  X(cuGraphLaunch, 10000, (CUgraphExec, CUstream))                                   \
  X(cuGraphDestroy, 10000, (CUgraph))                                                \
  X(cuGraphExecDestroy, 10000, (CUgraphExec))                                        \
  X(cuGraphExecUpdate, 12000, (CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo*))  \
  X(cuMemAllocAsync, 11020, (CUdeviceptr*, size_t, CUstream))                        \
  X(cuMemFreeAsync, 11020, (CUdeviceptr, CUstream))

namespace softdev {

struct MoreFunctions {
#define SOFTDEV_POINTER(name, version, parameters) CUresult(*name) parameters = nullptr;
  SOFTDEV_MORE_FUNCTIONS(SOFTDEV_POINTER)
#undef SOFTDEV_POINTER
};

}  // namespace softdev
