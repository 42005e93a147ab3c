// The questions of a program about the library and about a communicator.
#include <cstdint>
#include <new>
#include <string>

#include "plugins/nccl/caught.h"
#include "plugins/nccl/comm.h"
#include "plugins/nccl/per_thread.h"
#include "plugins/nccl/version.h"

namespace tutti::nccl {
namespace {

ncclResult_t version(int* value) {
  if (value == nullptr) return refuse("ncclGetVersion", "the place for the version is null");
  *value = version_code();
  return ncclSuccess;
}

const char* error_string(int result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "a CUDA call failed (ncclGetLastError has more)";
    case ncclSystemError:
      return "a system call failed (ncclGetLastError has more)";
    case ncclInternalError:
      return "internal error of Tutti (ncclGetLastError has more)";
    case ncclInvalidArgument:
      return "invalid argument (ncclGetLastError has more)";
    case ncclInvalidUsage:
      return "invalid usage (ncclGetLastError has more)";
    case ncclRemoteError:
      return "another rank failed or went away (ncclGetLastError has more)";
    case ncclInProgress:
      return "the call is in progress";
    case ncclTimeout:
      return "the time limit of the call has passed (ncclGetLastError has more)";
    default:
      return "unknown result code";
  }
}

ncclResult_t async_error(ncclComm_t comm, ncclResult_t* error) {
  constexpr char kName[] = "ncclCommGetAsyncError";
  if (const ncclResult_t bad = check_handle(comm, kName); bad != ncclSuccess) return bad;
  if (error == nullptr) return refuse(kName, "the place for the error is null");
  tuttiResult_t found = tuttiSuccess;
  const tuttiResult_t result = tuttiCommGetAsyncError(comm->tutti, &found);
  if (result == tuttiSuccess) (void)translate(found);  // ncclGetLastError has its words
  // NCCL says ncclInProgress of communicators that do not block alone: clients take anything but
  // success for an error, for ever. One that blocks may be made by a call that does not.
  if (found != tuttiInProgress) comm->made_behind = false;
  if (found == tuttiInProgress && comm->traits.blocking && !comm->made_behind) found = tuttiSuccess;
  // Programs go on polling the handle after an abort, also when there is nothing behind it any
  // more.
  const bool aborted = comm->state.load(std::memory_order_acquire) == State::kAborted;
  if (aborted && result != tuttiSuccess) found = tuttiSuccess;
  *error = found == tuttiUnsupported ? ncclInvalidUsage : static_cast<ncclResult_t>(found);
  return aborted ? ncclSuccess : translate(result);
}

/// Programs built against another version pass a shorter or longer struct.
template <class Value>
void put(ncclCommProperties_t* properties, Value ncclCommProperties_t::*field, Value value) {
  Value* place = &(properties->*field);
  const auto* begin = reinterpret_cast<const char*>(properties);
  const auto end = static_cast<size_t>(reinterpret_cast<const char*>(place + 1) - begin);
  if (end <= properties->size) *place = value;
}

ncclResult_t properties_of(ncclComm_t comm, ncclCommProperties_t* properties) {
  constexpr char kName[] = "ncclCommQueryProperties";
  if (const ncclResult_t bad = check_handle(comm, kName); bad != ncclSuccess) return bad;
  if (properties == nullptr) return refuse(kName, "the place for the properties is null");
  if (properties->magic != NCCL_API_MAGIC) {
    return misuse(kName, "begin with NCCL_COMM_PROPERTIES_INITIALIZER");
  }
  ncclTeam_t world = {};
  if (const ncclResult_t bad = find_world(comm, world); bad != ncclSuccess) return bad;
  put(properties, &ncclCommProperties_t::rank, world.rank);
  put(properties, &ncclCommProperties_t::nRanks, world.nRanks);
  put(properties, &ncclCommProperties_t::cudaDev, comm->traits.device);
  put(properties, &ncclCommProperties_t::nvmlDev, comm->traits.device);
  put(properties, &ncclCommProperties_t::deviceApiSupport, false);
  put(properties, &ncclCommProperties_t::multimemSupport, false);
  put(properties, &ncclCommProperties_t::ginType, NCCL_GIN_TYPE_NONE);
  put(properties, &ncclCommProperties_t::nLsaTeams, world.nRanks);
  put(properties, &ncclCommProperties_t::hostRmaSupport, true);
  put(properties, &ncclCommProperties_t::railedGinType, NCCL_GIN_TYPE_NONE);
  return ncclSuccess;
}

/// All of a GPU's memory that a communicator has can be given back.
ncclResult_t memory_of(ncclComm_t comm, int stat, uint64_t* value) {
  constexpr char kName[] = "ncclCommMemStats";
  if (const ncclResult_t bad = check_handle(comm, kName); bad != ncclSuccess) return bad;
  if (value == nullptr) return refuse(kName, "the place for the value is null");
  if (stat < ncclStatGpuMemSuspend || stat > ncclStatGpuMemTotal) {
    return refuse(kName, "unknown statistic");
  }
  size_t bytes = 0;
  int suspended = 0;
  const tuttiResult_t asked = tuttiCommGetDeviceMemory(comm->tutti, &bytes, &suspended);
  if (asked != tuttiSuccess) return translate(asked);
  *value = bytes;
  if (stat == ncclStatGpuMemSuspended) *value = suspended != 0 ? 1 : 0;
  if (stat == ncclStatGpuMemPersist) *value = 0;
  return ncclSuccess;
}

ncclResult_t suspend(ncclComm_t comm, int flags) {
  constexpr char kName[] = "ncclCommSuspend";
  static_assert(NCCL_SUSPEND_MEM == TUTTI_SUSPEND_MEMORY);
  if (flags != NCCL_SUSPEND_MEM) return refuse(kName, "flags must be NCCL_SUSPEND_MEM");
  const ncclResult_t refused = check_usable(comm, kName);
  return refused != ncclSuccess ? refused : translate(tuttiCommSuspend(comm->tutti, flags));
}

ncclResult_t resume(ncclComm_t comm) {
  const ncclResult_t refused = check_usable(comm, "ncclCommResume");
  return refused != ncclSuccess ? refused : translate(tuttiCommResume(comm->tutti));
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;

extern "C" {

ncclResult_t pncclGetVersion(int* value) {
  return caught([&] { return version(value); });
}

const char* pncclGetErrorString(ncclResult_t result) { return error_string(number_of(result)); }

const char* pncclGetLastError(ncclComm_t) {
  try {
    std::string& text = PerThread<std::string, struct LastError>::get();
    text = last_message();
    return text.c_str();
  } catch (const std::bad_alloc&) {
    return "no memory is left for the message";
  }
}

void pncclResetDebugInit() {}

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return caught([&] { return async_error(comm, error); });
}

ncclResult_t pncclCommCount(const ncclComm_t comm, int* ranks) {
  return caught([&]() -> ncclResult_t {
    return ask(comm, "ncclCommCount",
               [ranks](tuttiComm_t tutti) { return tuttiCommCount(tutti, ranks); });
  });
}

ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank) {
  return caught([&]() -> ncclResult_t {
    return ask(comm, "ncclCommUserRank",
               [rank](tuttiComm_t tutti) { return tuttiCommUserRank(tutti, rank); });
  });
}

ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device) {
  return caught([&]() -> ncclResult_t {
    if (const ncclResult_t bad = check_handle(comm, "ncclCommCuDevice"); bad != ncclSuccess)
      return bad;
    if (device == nullptr) return refuse("ncclCommCuDevice", "the place for the device is null");
    *device = comm->traits.device;
    return ncclSuccess;
  });
}

ncclResult_t pncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t* properties) {
  return caught([&] { return properties_of(comm, properties); });
}

ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value) {
  return caught([&] { return memory_of(comm, number_of(stat), value); });
}

ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags) {
  return caught([&] { return part_of_group(suspend(comm, flags)); });
}

ncclResult_t pncclCommResume(ncclComm_t comm) {
  return caught([&] { return part_of_group(resume(comm)); });
}

[[gnu::weak, gnu::alias("pncclGetVersion")]] decltype(pncclGetVersion) ncclGetVersion;
[[gnu::weak, gnu::alias("pncclGetErrorString")]] decltype(pncclGetErrorString) ncclGetErrorString;
[[gnu::weak, gnu::alias("pncclGetLastError")]] decltype(pncclGetLastError) ncclGetLastError;
[[gnu::weak, gnu::alias("pncclResetDebugInit")]] decltype(pncclResetDebugInit) ncclResetDebugInit;
[[gnu::weak,
  gnu::alias("pncclCommGetAsyncError")]] decltype(pncclCommGetAsyncError) ncclCommGetAsyncError;
[[gnu::weak, gnu::alias("pncclCommCount")]] decltype(pncclCommCount) ncclCommCount;
[[gnu::weak, gnu::alias("pncclCommUserRank")]] decltype(pncclCommUserRank) ncclCommUserRank;
[[gnu::weak, gnu::alias("pncclCommCuDevice")]] decltype(pncclCommCuDevice) ncclCommCuDevice;
[[gnu::weak,
  gnu::alias(
      "pncclCommQueryProperties")]] decltype(pncclCommQueryProperties) ncclCommQueryProperties;
[[gnu::weak, gnu::alias("pncclCommMemStats")]] decltype(pncclCommMemStats) ncclCommMemStats;
[[gnu::weak, gnu::alias("pncclCommSuspend")]] decltype(pncclCommSuspend) ncclCommSuspend;
[[gnu::weak, gnu::alias("pncclCommResume")]] decltype(pncclCommResume) ncclCommResume;

}  // extern "C"
