// The part that Tutti uses of UCX's interface, version 1.13 and later ones of major version 1:
// types and values of its own, so that no header of UCX is needed. Masks say which fields of a
// structure are meant, so that a later library takes these, which are shorter than its own.
//
// abi_test.cc compares them with ucp/api/ucp.h where there is one. No functions, no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::transports::ucx::api {

struct Context;
struct Worker;
struct Endpoint;
struct RemoteKey;
struct MappedMemory;
struct UcpConfig;
struct WorkerAddress;

/// Below zero: an error; kOk; kInProgress.
using Code = int8_t;
inline constexpr Code kOk = 0, kInProgress = 1, kBusy = -15;

/// The result of a function that starts an operation: null (done), a request, or an error.
using Started = void*;
inline constexpr uintptr_t kMostErrors = 100;
inline bool is_error(Started started) {
  return reinterpret_cast<uintptr_t>(started) >= ~uintptr_t{0} - kMostErrors + 1;
}
inline Code error_of(Started started) {
  return static_cast<Code>(reinterpret_cast<intptr_t>(started));
}

struct ContextParams {
  static constexpr uint64_t kFeatures = 1, kSharedByWorkers = 32;
  uint64_t field_mask = 0;
  uint64_t features = 0;
  size_t unused_before[4] = {};
  int mt_workers_shared = 0;
  size_t estimated_num_eps = 0;
  size_t unused_after[2] = {};
};
inline constexpr uint64_t kFeatureRemoteMemory = 2, kFeatureWakeup = 16, kFeatureMessages = 64;

struct WorkerParams {
  static constexpr uint64_t kThreadMode = 1;
  uint64_t field_mask = 0;
  int thread_mode = 0;
  uint64_t cpu_mask[16] = {};
  unsigned events = 0;
  void* unused[6] = {};
};
/// Of several threads one at a time.
inline constexpr int kThreadsSerialized = 1;

using ErrorHandler = void (*)(void* argument, Endpoint* endpoint, Code code);
struct EndpointParams {
  static constexpr uint64_t kAddress = 1, kErrorMode = 2, kErrorHandler = 4;
  uint64_t field_mask = 0;
  const WorkerAddress* address = nullptr;
  int error_mode = 0;
  ErrorHandler handler = nullptr;
  void* argument = nullptr;
  void* user_data = nullptr;
  unsigned flags = 0;
  void* unused[6] = {};
};
/// The failure of the peer is told, and ends the endpoint, not the process.
inline constexpr int kErrorsOfPeers = 1;

using DoneHandler = void (*)(void* request, Code code, void* user_data);
struct RequestParams {
  static constexpr uint32_t kCallback = 2, kUserData = 4, kFlags = 16;
  uint32_t field_mask = 0;
  uint32_t flags = 0;
  void* request = nullptr;
  DoneHandler done = nullptr;
  uint64_t datatype = 0;
  void* user_data = nullptr;
  void* reply_buffer = nullptr;
  int memory_type = 0;
  void* unused[2] = {};
};
inline constexpr uint32_t kEager = 2;  // of messages
inline constexpr uint32_t kForce = 1;  // of the end of an endpoint

struct ReceivedMessage {
  static constexpr uint64_t kOnlyAnnounced = uint64_t{1} << 17;
  uint64_t attributes = 0;
  Endpoint* reply_endpoint = nullptr;
};
using MessageHandler = Code (*)(void* argument, const void* header, size_t header_bytes, void* data,
                                size_t bytes, const ReceivedMessage* message);
struct MessageHandlerParams {
  static constexpr uint64_t kId = 1, kFlags = 2, kHandler = 4, kArgument = 8;
  uint64_t field_mask = 0;
  unsigned id = 0;
  uint32_t flags = 0;
  MessageHandler handler = nullptr;
  void* argument = nullptr;
};
inline constexpr uint32_t kWholeMessages = 1;  // a flag of handlers

struct MapParams {
  static constexpr uint64_t kAddress = 1, kLength = 2;
  uint64_t field_mask = 0;
  void* address = nullptr;
  size_t length = 0;
  unsigned flags = 0;
  unsigned protection = 0;
  int memory_type = 0;
};

}  // namespace tutti::transports::ucx::api
