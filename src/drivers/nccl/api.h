// The part of NCCL's interface that Tutti uses: types, values and layouts, under names of our own,
// so that nothing of NCCL is needed to build. Names and values are NCCL's.
#pragma once

#include <climits>
#include <cstddef>

namespace tutti::drivers::nccl::api {

using NcclComm = struct NcclCommunicator*;

struct NcclId {
  char bytes[128];
};

enum NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

/// types::DataType and types::ReduceOp have NCCL's values as far as NCCL has them.
using NcclType = int;
using NcclOp = int;
inline constexpr int kTypesOfAll = 10;    // integers, fp16 to fp64, bf16
inline constexpr int kTypesWithFp8 = 12;  // and those of 8 bits, from kFp8Version on
inline constexpr int kNamedOps = 5;       // sum, product, greatest, least, average
inline constexpr int kScalarIsOnDevice = 0, kScalarIsOnHost = 1;

/// Facts about the device memory of a communicator.
using NcclMemoryFact = int;
inline constexpr int kBytesThatSuspendGivesBack = 0, kBytesOfAll = 3;
inline constexpr int kSuspendMemory = 1;  // a flag

inline constexpr int kUnsetInt = INT_MIN;
inline constexpr unsigned kMagic = 0xcafebeef;

/// It only ever grows at its end. A library takes those that are shorter than its own.
struct NcclConfig {
  size_t size = 0;
  unsigned magic = kMagic;
  unsigned version = 0;
  int blocking = kUnsetInt;
  int cluster_ctas = kUnsetInt;
  int least_ctas = kUnsetInt;
  int most_ctas = kUnsetInt;
  const char* network = nullptr;  // 2.17
  int split_share = kUnsetInt;    // 2.18
  int traffic_class = kUnsetInt;  // 2.26
  const char* name = nullptr;     // 2.27
  int collective_network = kUnsetInt;
  int cta_policy = kUnsetInt;
  int shrink_share = kUnsetInt;
  int nvls_ctas = kUnsetInt;
};

}  // namespace tutti::drivers::nccl::api
