// Tutti's declarations of the driver's interface, compared with the vendor's header where there is
// one. Most of it is checked when this file is compiled.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "src/drivers/cuda/functions.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#include <cudaTypedefs.h>
// The header has a newer one under this name.
#undef cuStreamGetCaptureInfo
extern std::remove_pointer_t<PFN_cuStreamGetCaptureInfo_v11030> cuStreamGetCaptureInfo;
#endif

namespace tutti::drivers::cuda::api {
namespace {

#if defined(CUDA_VERSION) && CUDA_VERSION >= 12080

/// Whether a caller of one passes and gets the same bits in the same places as a caller of the
/// other.
template <class A, class B>
constexpr bool kPassedAlike =
    std::is_void_v<A>
        ? std::is_void_v<B>
        : sizeof(A) == sizeof(B) && std::is_pointer_v<A> ==
                                        std::is_pointer_v<B>&& std::is_floating_point_v<A> ==
                                        std::is_floating_point_v<B>;

template <class A, class B>
constexpr bool kCalledAlike = false;
template <class A, class... As, class B, class... Bs>
requires(sizeof...(As) == sizeof...(Bs)) constexpr bool kCalledAlike<A (*)(As...), B (*)(Bs...)> =
    kPassedAlike<A, B> && (kPassedAlike<As, Bs> && ...);

static_assert(kCalledAlike<int (*)(int*, size_t), int (*)(char*, size_t)>);
static_assert(!kCalledAlike<int (*)(int*, size_t), int (*)(int*, int)>);
static_assert(!kCalledAlike<int (*)(int*, size_t), int (*)(size_t, int*)>);
static_assert(!kCalledAlike<int (*)(int*), int (*)(int*, int)>);

#define TUTTI_CUDA_COMPARE(name, version, parameters) \
  static_assert(kCalledAlike<CUresult(*) parameters, decltype(&::name)>, #name);
TUTTI_CUDA_FUNCTIONS(TUTTI_CUDA_COMPARE)
TUTTI_CUDA_OPTIONAL_FUNCTIONS(TUTTI_CUDA_COMPARE)
#undef TUTTI_CUDA_COMPARE
#if CUDA_VERSION >= 13000
static_assert(kCalledAlike<CopyBatch130, decltype(&::cuMemcpyBatchAsync)>);
#else
static_assert(kCalledAlike<CopyBatch128, decltype(&::cuMemcpyBatchAsync)>);
#endif
static_assert(kCalledAlike<GetProcAddress, decltype(&::cuGetProcAddress)>);

#define TUTTI_SAME_VALUE(ours, theirs) \
  static_assert(static_cast<unsigned long long>(ours) == static_cast<unsigned long long>(theirs))
TUTTI_SAME_VALUE(kSuccess, CUDA_SUCCESS);
TUTTI_SAME_VALUE(kErrorInvalidValue, CUDA_ERROR_INVALID_VALUE);
TUTTI_SAME_VALUE(kErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
TUTTI_SAME_VALUE(kErrorNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
TUTTI_SAME_VALUE(kErrorNoDevice, CUDA_ERROR_NO_DEVICE);
TUTTI_SAME_VALUE(kErrorInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
TUTTI_SAME_VALUE(kErrorInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
TUTTI_SAME_VALUE(kErrorInvalidImage, CUDA_ERROR_INVALID_IMAGE);
TUTTI_SAME_VALUE(kErrorNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
TUTTI_SAME_VALUE(kErrorInvalidPtx, CUDA_ERROR_INVALID_PTX);
TUTTI_SAME_VALUE(kErrorJitCompilerNotFound, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
TUTTI_SAME_VALUE(kErrorUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
TUTTI_SAME_VALUE(kErrorJitCompilationDisabled, CUDA_ERROR_JIT_COMPILATION_DISABLED);
TUTTI_SAME_VALUE(kErrorMapFailed, CUDA_ERROR_MAP_FAILED);
TUTTI_SAME_VALUE(kErrorOperatingSystem, CUDA_ERROR_OPERATING_SYSTEM);
TUTTI_SAME_VALUE(kErrorInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
TUTTI_SAME_VALUE(kErrorIllegalState, CUDA_ERROR_ILLEGAL_STATE);
TUTTI_SAME_VALUE(kErrorNotFound, CUDA_ERROR_NOT_FOUND);
TUTTI_SAME_VALUE(kErrorNotReady, CUDA_ERROR_NOT_READY);
TUTTI_SAME_VALUE(kErrorIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
TUTTI_SAME_VALUE(kErrorHostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
TUTTI_SAME_VALUE(kErrorHostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
TUTTI_SAME_VALUE(kErrorNotPermitted, CUDA_ERROR_NOT_PERMITTED);
TUTTI_SAME_VALUE(kErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED);
TUTTI_SAME_VALUE(kErrorStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
TUTTI_SAME_VALUE(kErrorStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
TUTTI_SAME_VALUE(kErrorStreamCaptureMerge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
TUTTI_SAME_VALUE(kErrorStreamCaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
TUTTI_SAME_VALUE(kErrorStreamCaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
TUTTI_SAME_VALUE(kErrorStreamCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
TUTTI_SAME_VALUE(kErrorStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
TUTTI_SAME_VALUE(kErrorCapturedEvent, CUDA_ERROR_CAPTURED_EVENT);

TUTTI_SAME_VALUE(kDeviceMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
TUTTI_SAME_VALUE(kDeviceCanMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
TUTTI_SAME_VALUE(kDevicePciBusId, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
TUTTI_SAME_VALUE(kDevicePciDeviceId, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
TUTTI_SAME_VALUE(kDevicePciDomainId, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
TUTTI_SAME_VALUE(kDeviceCopyEngines, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
TUTTI_SAME_VALUE(kDeviceUnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
TUTTI_SAME_VALUE(kDeviceCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
TUTTI_SAME_VALUE(kDeviceCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
TUTTI_SAME_VALUE(kDeviceStreamPriorities, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
TUTTI_SAME_VALUE(kDevicePageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
TUTTI_SAME_VALUE(kDeviceHostPointerForRegistered,
                 CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
TUTTI_SAME_VALUE(kDeviceCanFlushRemoteWrites, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES);
TUTTI_SAME_VALUE(kDeviceHostRegister, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
TUTTI_SAME_VALUE(kDeviceVirtualMemory, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
TUTTI_SAME_VALUE(kDeviceHandlePosixDescriptor,
                 CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
TUTTI_SAME_VALUE(kDevice64BitMemoryOps, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
TUTTI_SAME_VALUE(kDeviceWaitValueNor, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR);
TUTTI_SAME_VALUE(kDeviceHandleFabric, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
TUTTI_SAME_VALUE(kDeviceMulticast, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED);

TUTTI_SAME_VALUE(kPointerContext, CU_POINTER_ATTRIBUTE_CONTEXT);
TUTTI_SAME_VALUE(kPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
TUTTI_SAME_VALUE(kPointerBufferId, CU_POINTER_ATTRIBUTE_BUFFER_ID);
TUTTI_SAME_VALUE(kPointerIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED);
TUTTI_SAME_VALUE(kPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
TUTTI_SAME_VALUE(kPointerRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
TUTTI_SAME_VALUE(kPointerRangeBytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE);

TUTTI_SAME_VALUE(kMemoryTypeHost, CU_MEMORYTYPE_HOST);
TUTTI_SAME_VALUE(kMemoryTypeDevice, CU_MEMORYTYPE_DEVICE);
TUTTI_SAME_VALUE(kAllocationPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
TUTTI_SAME_VALUE(kHandleNone, CU_MEM_HANDLE_TYPE_NONE);
TUTTI_SAME_VALUE(kRangeDmaBuf, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
TUTTI_SAME_VALUE(kHandlePosixDescriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
TUTTI_SAME_VALUE(kLocationInvalid, CU_MEM_LOCATION_TYPE_INVALID);
TUTTI_SAME_VALUE(kLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
TUTTI_SAME_VALUE(kAccessNone, CU_MEM_ACCESS_FLAGS_PROT_NONE);
TUTTI_SAME_VALUE(kAccessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
TUTTI_SAME_VALUE(kGranularityMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
TUTTI_SAME_VALUE(kGranularityRecommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);

TUTTI_SAME_VALUE(kSourceInStreamOrder, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
TUTTI_SAME_VALUE(kSourceDuringCall, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
TUTTI_SAME_VALUE(kSourceAnyTime, CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
TUTTI_SAME_VALUE(kCopyOverlapsCompute, CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
TUTTI_SAME_VALUE(kWaitValue32, CU_STREAM_MEM_OP_WAIT_VALUE_32);
TUTTI_SAME_VALUE(kWriteValue32, CU_STREAM_MEM_OP_WRITE_VALUE_32);
TUTTI_SAME_VALUE(kFlushRemoteWrites, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES);
TUTTI_SAME_VALUE(kWaitValue64, CU_STREAM_MEM_OP_WAIT_VALUE_64);
TUTTI_SAME_VALUE(kWriteValue64, CU_STREAM_MEM_OP_WRITE_VALUE_64);
TUTTI_SAME_VALUE(kMemoryBarrier, CU_STREAM_MEM_OP_BARRIER);
TUTTI_SAME_VALUE(kWaitAtLeast, CU_STREAM_WAIT_VALUE_GEQ);
TUTTI_SAME_VALUE(kWaitEqual, CU_STREAM_WAIT_VALUE_EQ);
TUTTI_SAME_VALUE(kWaitAnd, CU_STREAM_WAIT_VALUE_AND);
TUTTI_SAME_VALUE(kWaitNor, CU_STREAM_WAIT_VALUE_NOR);
TUTTI_SAME_VALUE(kWriteNoBarrier, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);

TUTTI_SAME_VALUE(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
TUTTI_SAME_VALUE(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
TUTTI_SAME_VALUE(kEventRecordExternal, CU_EVENT_RECORD_EXTERNAL);
TUTTI_SAME_VALUE(kEventWaitExternal, CU_EVENT_WAIT_EXTERNAL);
TUTTI_SAME_VALUE(kUserObjectNoDestructorSync, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
TUTTI_SAME_VALUE(kGraphUserObjectMove, CU_GRAPH_USER_OBJECT_MOVE);
TUTTI_SAME_VALUE(kHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
TUTTI_SAME_VALUE(kHostAllocDeviceMap, CU_MEMHOSTALLOC_DEVICEMAP);
TUTTI_SAME_VALUE(kHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE);
TUTTI_SAME_VALUE(kHostRegisterDeviceMap, CU_MEMHOSTREGISTER_DEVICEMAP);
TUTTI_SAME_VALUE(kCaptureGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL);
TUTTI_SAME_VALUE(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
TUTTI_SAME_VALUE(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
TUTTI_SAME_VALUE(kCaptureNone, CU_STREAM_CAPTURE_STATUS_NONE);
TUTTI_SAME_VALUE(kCaptureActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
TUTTI_SAME_VALUE(kCaptureInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
TUTTI_SAME_VALUE(kProcAddressFound, CU_GET_PROC_ADDRESS_SUCCESS);
TUTTI_SAME_VALUE(kProcAddressNotFound, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
TUTTI_SAME_VALUE(kProcAddressVersionNotSufficient, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

#define TUTTI_SAME_FIELD(ours, our_field, theirs, their_field)                \
  static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) && \
                sizeof(ours::our_field) == sizeof(decltype(theirs::their_field)))
static_assert(sizeof(CUuuid) == sizeof(::CUuuid));
static_assert(sizeof(CUdeviceptr) == sizeof(::CUdeviceptr));
static_assert(sizeof(CUmemorytype) == sizeof(::CUmemorytype));
static_assert(sizeof(CUmemLocation) == sizeof(::CUmemLocation));
TUTTI_SAME_FIELD(CUmemLocation, type, ::CUmemLocation, type);
TUTTI_SAME_FIELD(CUmemLocation, id, ::CUmemLocation, id);
static_assert(sizeof(CUmemAllocationProp) == sizeof(::CUmemAllocationProp));
TUTTI_SAME_FIELD(CUmemAllocationProp, type, ::CUmemAllocationProp, type);
TUTTI_SAME_FIELD(CUmemAllocationProp, requestedHandleTypes, ::CUmemAllocationProp,
                 requestedHandleTypes);
TUTTI_SAME_FIELD(CUmemAllocationProp, location, ::CUmemAllocationProp, location);
TUTTI_SAME_FIELD(CUmemAllocationProp, gpuDirectRDMACapable, ::CUmemAllocationProp,
                 allocFlags.gpuDirectRDMACapable);
TUTTI_SAME_FIELD(CUmemAllocationProp, usage, ::CUmemAllocationProp, allocFlags.usage);
static_assert(sizeof(CUmemAccessDesc) == sizeof(::CUmemAccessDesc));
TUTTI_SAME_VALUE(kMulticastMinimum, CU_MULTICAST_GRANULARITY_MINIMUM);
TUTTI_SAME_VALUE(kMulticastRecommended, CU_MULTICAST_GRANULARITY_RECOMMENDED);
static_assert(sizeof(CUmulticastObjectProp) == sizeof(::CUmulticastObjectProp));
TUTTI_SAME_FIELD(CUmulticastObjectProp, numDevices, ::CUmulticastObjectProp, numDevices);
TUTTI_SAME_FIELD(CUmulticastObjectProp, size, ::CUmulticastObjectProp, size);
TUTTI_SAME_FIELD(CUmulticastObjectProp, handleTypes, ::CUmulticastObjectProp, handleTypes);
TUTTI_SAME_FIELD(CUmulticastObjectProp, flags, ::CUmulticastObjectProp, flags);
TUTTI_SAME_FIELD(CUmemAccessDesc, flags, ::CUmemAccessDesc, flags);
static_assert(sizeof(CUmemcpyAttributes) == sizeof(::CUmemcpyAttributes));
TUTTI_SAME_FIELD(CUmemcpyAttributes, srcAccessOrder, ::CUmemcpyAttributes, srcAccessOrder);
TUTTI_SAME_FIELD(CUmemcpyAttributes, srcLocHint, ::CUmemcpyAttributes, srcLocHint);
TUTTI_SAME_FIELD(CUmemcpyAttributes, dstLocHint, ::CUmemcpyAttributes, dstLocHint);
TUTTI_SAME_FIELD(CUmemcpyAttributes, flags, ::CUmemcpyAttributes, flags);
static_assert(sizeof(CUstreamBatchMemOpParams) == sizeof(::CUstreamBatchMemOpParams));
TUTTI_SAME_FIELD(CUstreamBatchMemOpParams, operation, ::CUstreamBatchMemOpParams, operation);
TUTTI_SAME_FIELD(CUstreamBatchMemOpParams, address, ::CUstreamBatchMemOpParams, waitValue.address);
TUTTI_SAME_FIELD(CUstreamBatchMemOpParams, value, ::CUstreamBatchMemOpParams, waitValue.value64);
TUTTI_SAME_FIELD(CUstreamBatchMemOpParams, flags, ::CUstreamBatchMemOpParams, waitValue.flags);
TUTTI_SAME_FIELD(CUstreamBatchMemOpParams, address, ::CUstreamBatchMemOpParams, writeValue.address);
TUTTI_SAME_FIELD(CUstreamBatchMemOpParams, value, ::CUstreamBatchMemOpParams, writeValue.value64);
TUTTI_SAME_FIELD(CUstreamBatchMemOpParams, flags, ::CUstreamBatchMemOpParams, writeValue.flags);
static_assert(offsetof(CUstreamBatchMemOpParams, value) ==
              offsetof(::CUstreamBatchMemOpParams, waitValue.value));

TEST(CudaInterface, AStreamOfAnotherNameIsTheOneOfTheHeader) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(CU_STREAM_LEGACY), kStreamLegacy);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(CU_STREAM_PER_THREAD), kStreamPerThread);
}

TEST(CudaInterface, A32BitOperationReadsTheLowHalfOfTheValue) {
  CUstreamBatchMemOpParams ours{};
  ours.value = 0x1122334455667788;
  ::CUstreamBatchMemOpParams theirs{};
  static_assert(sizeof theirs == sizeof ours);
  __builtin_memcpy(&theirs, &ours, sizeof theirs);
  EXPECT_EQ(theirs.waitValue.value, 0x55667788u);
}

#else

TEST(CudaInterface, IsTheOneOfTheHeader) {
  GTEST_SKIP() << "there is no cuda.h of CUDA 12.8 or newer: Tutti's own declarations of the "
                  "driver's interface (src/drivers/cuda/api.h) were compared with nothing";
}

#endif

}  // namespace
}  // namespace tutti::drivers::cuda::api
