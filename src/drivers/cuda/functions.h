// The functions of the CUDA driver that Tutti calls, as a table: a new one is one row.
#pragma once

#include "src/drivers/cuda/api.h"

/// X(name, version, parameters): the version is that of CUDA (1000 * major + 10 * minor) whose
/// binary interface the parameters are; the driver is asked for that one by name and version. None
/// is above 12.0, so a driver of 12.0 has them all; newer ones are in the second table.
/// cuMemcpyBatchAsync is no row, because it is called by whichever of its two interfaces there is
/// (driver.h).
#define TUTTI_CUDA_FUNCTIONS(X)                                                                  \
  X(cuInit, 2000, (unsigned))                                                                    \
  X(cuGetErrorName, 6000, (CUresult, const char**))                                              \
  X(cuGetErrorString, 6000, (CUresult, const char**))                                            \
  /* devices */                                                                                  \
  X(cuDeviceGetCount, 2000, (int*))                                                              \
  X(cuDeviceGet, 2000, (CUdevice*, int))                                                         \
  X(cuDeviceGetName, 2000, (char*, int, CUdevice))                                               \
  X(cuDeviceGetUuid, 11040, (CUuuid*, CUdevice))                                                 \
  X(cuDeviceGetAttribute, 2000, (int*, CUdevice_attribute, CUdevice))                            \
  X(cuDeviceCanAccessPeer, 4000, (int*, CUdevice, CUdevice))                                     \
  /* contexts */                                                                                 \
  X(cuDevicePrimaryCtxRetain, 7000, (CUcontext*, CUdevice))                                      \
  X(cuDevicePrimaryCtxRelease, 11000, (CUdevice))                                                \
  X(cuDevicePrimaryCtxGetState, 7000, (CUdevice, unsigned*, int*))                               \
  X(cuCtxPushCurrent, 4000, (CUcontext))                                                         \
  X(cuCtxPopCurrent, 4000, (CUcontext*))                                                         \
  X(cuCtxGetCurrent, 4000, (CUcontext*))                                                         \
  X(cuCtxGetDevice, 2000, (CUdevice*))                                                           \
  X(cuThreadExchangeStreamCaptureMode, 10010, (CUstreamCaptureMode*))                            \
  /* streams and events */                                                                       \
  X(cuStreamCreateWithPriority, 5050, (CUstream*, unsigned, int))                                \
  X(cuStreamGetPriority, 5050, (CUstream, int*))                                                 \
  X(cuStreamDestroy, 4000, (CUstream))                                                           \
  X(cuStreamQuery, 2000, (CUstream))                                                             \
  X(cuStreamSynchronize, 2000, (CUstream))                                                       \
  X(cuStreamGetId, 12000, (CUstream, unsigned long long*))                                       \
  X(cuStreamGetCtx, 9020, (CUstream, CUcontext*))                                                \
  X(cuStreamIsCapturing, 10000, (CUstream, CUstreamCaptureStatus*))                              \
  X(cuStreamGetCaptureInfo, 11030,                                                               \
    (CUstream, CUstreamCaptureStatus*, uint64_t*, CUgraph*, const CUgraphNode**, size_t*))       \
  X(cuLaunchHostFunc, 10000, (CUstream, CUhostFn, void*))                                        \
  X(cuStreamWaitEvent, 3020, (CUstream, CUevent, unsigned))                                      \
  X(cuStreamBatchMemOp, 11070, (CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned))        \
  X(cuEventCreate, 2000, (CUevent*, unsigned))                                                   \
  X(cuEventDestroy, 4000, (CUevent))                                                             \
  X(cuEventRecord, 2000, (CUevent, CUstream))                                                    \
  X(cuEventRecordWithFlags, 11010, (CUevent, CUstream, unsigned))                                \
  X(cuEventQuery, 2000, (CUevent))                                                               \
  X(cuEventElapsedTime, 2000, (float*, CUevent, CUevent))                                        \
  /* what a graph keeps */                                                                       \
  X(cuUserObjectCreate, 11030, (CUuserObject*, void*, CUhostFn, unsigned, unsigned))             \
  X(cuUserObjectRelease, 11030, (CUuserObject, unsigned))                                        \
  X(cuGraphRetainUserObject, 11030, (CUgraph, CUuserObject, unsigned, unsigned))                 \
  /* kernels */                                                                                  \
  X(cuModuleLoadData, 2000, (CUmodule*, const void*))                                            \
  X(cuModuleUnload, 2000, (CUmodule))                                                            \
  X(cuModuleGetFunction, 2000, (CUfunction*, CUmodule, const char*))                             \
  X(cuLaunchKernel, 4000,                                                                        \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, \
     void**, void**))                                                                            \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, (int*, CUfunction, int, size_t))          \
  /* memory */                                                                                   \
  X(cuMemcpyAsync, 4000, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                           \
  X(cuMemsetD8Async, 3020, (CUdeviceptr, unsigned char, size_t, CUstream))                       \
  X(cuMemGetAllocationGranularity, 10020,                                                        \
    (size_t*, const CUmemAllocationProp*, CUmemAllocationGranularity_flags))                     \
  X(cuMemCreate, 10020,                                                                          \
    (CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long))     \
  X(cuMemRelease, 10020, (CUmemGenericAllocationHandle))                                         \
  X(cuMemAddressReserve, 10020, (CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long)) \
  X(cuMemAddressFree, 10020, (CUdeviceptr, size_t))                                              \
  X(cuMemMap, 10020,                                                                             \
    (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))             \
  X(cuMemUnmap, 10020, (CUdeviceptr, size_t))                                                    \
  X(cuMemSetAccess, 10020, (CUdeviceptr, size_t, const CUmemAccessDesc*, size_t))                \
  X(cuMemExportToShareableHandle, 10020,                                                         \
    (void*, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long))        \
  X(cuMemGetHandleForAddressRange, 11070,                                                        \
    (void*, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long))                      \
  X(cuMemRetainAllocationHandle, 11000, (CUmemGenericAllocationHandle*, void*))                  \
  X(cuMemImportFromShareableHandle, 10020,                                                       \
    (CUmemGenericAllocationHandle*, void*, CUmemAllocationHandleType))                           \
  X(cuMemGetInfo, 3020, (size_t*, size_t*))                                                      \
  X(cuMemHostAlloc, 2020, (void**, size_t, unsigned))                                            \
  X(cuMemFreeHost, 2000, (void*))                                                                \
  X(cuMemHostRegister, 6050, (void*, size_t, unsigned))                                          \
  X(cuMemHostUnregister, 4000, (void*))                                                          \
  X(cuMemHostGetDevicePointer, 3020, (CUdeviceptr*, void*, unsigned))                            \
  X(cuPointerGetAttributes, 7000, (unsigned, CUpointer_attribute*, void**, CUdeviceptr))

/// The same of functions that newer drivers have: their pointers are null where the driver is
/// older.
#define TUTTI_CUDA_OPTIONAL_FUNCTIONS(X)                                                     \
  /* memory of several devices behind one address (multicast.h) */                           \
  X(cuMulticastCreate, 12010, (CUmemGenericAllocationHandle*, const CUmulticastObjectProp*)) \
  X(cuMulticastAddDevice, 12010, (CUmemGenericAllocationHandle, CUdevice))                   \
  X(cuMulticastBindMem, 12010,                                                               \
    (CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t, size_t,     \
     unsigned long long))                                                                    \
  X(cuMulticastUnbind, 12010, (CUmemGenericAllocationHandle, CUdevice, size_t, size_t))      \
  X(cuMulticastGetGranularity, 12010,                                                        \
    (size_t*, const CUmulticastObjectProp*, CUmulticastGranularity_flags))

namespace tutti::drivers::cuda::api {

/// One pointer for each row, under the row's name.
struct DriverFunctions {
#define TUTTI_CUDA_POINTER(name, version, parameters) CUresult(*name) parameters = nullptr;
  TUTTI_CUDA_FUNCTIONS(TUTTI_CUDA_POINTER)
  TUTTI_CUDA_OPTIONAL_FUNCTIONS(TUTTI_CUDA_POINTER)
#undef TUTTI_CUDA_POINTER
};

using GetProcAddress = CUresult (*)(const char*, void**, int, uint64_t,
                                    CUdriverProcAddressQueryResult*);
/// As of CUDA 12.8: targets, sources, sizes, how many; attributes, the first copy that each is for,
/// how many; where the index of a copy that failed goes.
using CopyBatch128 = CUresult (*)(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*,
                                  size_t*, size_t, size_t*, CUstream);
/// As of CUDA 13.0: without the index.
using CopyBatch130 = CUresult (*)(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*,
                                  size_t*, size_t, CUstream);

}  // namespace tutti::drivers::cuda::api
