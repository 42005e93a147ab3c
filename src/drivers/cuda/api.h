// The part of the CUDA driver's binary interface that Tutti uses, declared by Tutti itself: no
// header of CUDA is needed to build.
//
// Types have their documented names, so that the driver's documentation explains them. Constants
// have names of ours, because some of the documented ones are macros. abi_test.cc compares sizes,
// offsets, values and signatures with cuda.h where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::drivers::cuda::api {

using CUdevice = int;
using CUdeviceptr = uint64_t;  // also a host address, where the driver knows the memory
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;  // null: the legacy default stream of the current context
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUuserObject = struct CUuserObject_st*;
using CUhostFn = void (*)(void*);
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUmemGenericAllocationHandle = uint64_t;

inline constexpr uintptr_t kStreamLegacy = 1;  // CUstream values with a meaning of their own
inline constexpr uintptr_t kStreamPerThread = 2;

/// Those that the code names; error_status() finds the names of all of them.
enum CUresult : int {
  kSuccess = 0,
  kErrorInvalidValue = 1,
  kErrorOutOfMemory = 2,
  kErrorNotInitialized = 3,
  kErrorNoDevice = 100,
  kErrorInvalidDevice = 101,
  kErrorInvalidImage = 200,
  kErrorInvalidContext = 201,
  kErrorMapFailed = 205,
  kErrorNoBinaryForGpu = 209,
  kErrorInvalidPtx = 218,
  kErrorJitCompilerNotFound = 221,
  kErrorUnsupportedPtxVersion = 222,
  kErrorJitCompilationDisabled = 223,
  kErrorOperatingSystem = 304,
  kErrorInvalidHandle = 400,
  kErrorIllegalState = 401,
  kErrorNotFound = 500,
  kErrorNotReady = 600,
  kErrorIllegalAddress = 700,
  kErrorHostMemoryAlreadyRegistered = 712,
  kErrorHostMemoryNotRegistered = 713,
  kErrorNotPermitted = 800,
  kErrorNotSupported = 801,
  kErrorStreamCaptureUnsupported = 900,
  kErrorStreamCaptureInvalidated = 901,
  kErrorStreamCaptureMerge = 902,
  kErrorStreamCaptureUnmatched = 903,
  kErrorStreamCaptureUnjoined = 904,
  kErrorStreamCaptureIsolation = 905,
  kErrorStreamCaptureImplicit = 906,
  kErrorCapturedEvent = 907,
};

enum CUdevice_attribute : int {
  kDeviceMultiprocessors = 16,
  kDeviceCanMapHostMemory = 19,
  kDevicePciBusId = 33,
  kDevicePciDeviceId = 34,
  kDeviceCopyEngines = 40,
  kDeviceUnifiedAddressing = 41,
  kDevicePciDomainId = 50,
  kDeviceCapabilityMajor = 75,
  kDeviceCapabilityMinor = 76,
  kDeviceStreamPriorities = 78,
  kDevicePageableMemoryAccess = 88,
  kDeviceHostPointerForRegistered = 91,
  kDeviceCanFlushRemoteWrites = 98,
  kDeviceHostRegister = 99,
  kDeviceVirtualMemory = 102,
  kDeviceHandlePosixDescriptor = 103,
  kDevice64BitMemoryOps = 122,
  kDeviceWaitValueNor = 123,
  kDeviceHandleFabric = 128,
  kDeviceMulticast = 132,
  kDeviceSharedByMps = 133,
};

enum CUpointer_attribute : int {
  kPointerContext = 1,
  kPointerMemoryType = 2,
  kPointerBufferId = 7,  // 64 bits, of which each allocation of a process's life has its own
  kPointerIsManaged = 8,
  kPointerDeviceOrdinal = 9,
  kPointerRangeStart = 11,
  kPointerRangeBytes = 12,
};

enum CUmemorytype : unsigned { kMemoryTypeHost = 1, kMemoryTypeDevice = 2 };

enum CUmemAllocationType : int { kAllocationPinned = 1 };
enum CUmemRangeHandleType : int { kRangeDmaBuf = 1 };
enum CUmemAllocationHandleType : int { kHandleNone = 0, kHandlePosixDescriptor = 1 };
enum CUmemLocationType : int { kLocationInvalid = 0, kLocationDevice = 1 };
enum CUmemAccess_flags : int { kAccessNone = 0, kAccessReadWrite = 3 };
enum CUmemAllocationGranularity_flags : int {
  kGranularityMinimum = 0,
  kGranularityRecommended = 1,
};

struct CUuuid {
  unsigned char bytes[16];
};

struct CUmemLocation {
  CUmemLocationType type;
  int id;
};

struct CUmemAllocationProp {
  CUmemAllocationType type;
  CUmemAllocationHandleType requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  unsigned char compressionType;
  unsigned char gpuDirectRDMACapable;
  unsigned short usage;
  unsigned char reserved[4];
};

struct CUmulticastObjectProp {
  unsigned numDevices;
  size_t size;
  unsigned long long handleTypes;
  unsigned long long flags;
};
enum CUmulticastGranularity_flags : int { kMulticastMinimum = 0, kMulticastRecommended = 1 };

struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};

enum CUmemcpySrcAccessOrder : int {
  kSourceInStreamOrder = 1,  // the source is read where the stream has come to
  kSourceDuringCall = 2,
  kSourceAnyTime = 3,
};
inline constexpr unsigned kCopyOverlapsCompute = 1;  // a hint: use a copy engine

struct CUmemcpyAttributes {
  CUmemcpySrcAccessOrder srcAccessOrder;
  CUmemLocation srcLocHint;
  CUmemLocation dstLocHint;
  unsigned flags;
};

enum CUstreamBatchMemOpType : int {
  kWaitValue32 = 1,
  kWriteValue32 = 2,
  kFlushRemoteWrites = 3,
  kWaitValue64 = 4,
  kWriteValue64 = 5,
  kMemoryBarrier = 6,
};
inline constexpr unsigned kWaitAtLeast = 0;  // cyclic: the difference as a signed number is >= 0
inline constexpr unsigned kWaitEqual = 1;
inline constexpr unsigned kWaitAnd = 2;
inline constexpr unsigned kWaitNor = 3;
inline constexpr unsigned kWriteNoBarrier = 1;

/// The documented union has two members that matter here and are laid out alike: waitValue and
/// writeValue. A 32-bit operation reads the low half of `value`.
struct CUstreamBatchMemOpParams {
  CUstreamBatchMemOpType operation;
  CUdeviceptr address;
  uint64_t value;
  unsigned flags;
  CUdeviceptr alias;
  uint64_t unused;
};
/// A call takes fewer than 256.
inline constexpr size_t kMemoryOpsPerCall = 255;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
/// In a captured stream: the event is no point of the graph, but recorded, or waited for, whenever
/// the graph runs.
inline constexpr unsigned kEventRecordExternal = 1;
inline constexpr unsigned kEventWaitExternal = 1;
inline constexpr unsigned kUserObjectNoDestructorSync = 1;
inline constexpr unsigned kGraphUserObjectMove = 1;
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kHostAllocDeviceMap = 2;
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr unsigned kHostRegisterDeviceMap = 2;

enum CUstreamCaptureMode : int {
  kCaptureGlobal = 0,
  kCaptureThreadLocal = 1,
  kCaptureRelaxed = 2,
};
enum CUstreamCaptureStatus : int {
  kCaptureNone = 0,
  kCaptureActive = 1,
  kCaptureInvalidated = 2,
};

enum CUdriverProcAddressQueryResult : int {
  kProcAddressFound = 0,
  kProcAddressNotFound = 1,
  kProcAddressVersionNotSufficient = 2,
};

}  // namespace tutti::drivers::cuda::api
