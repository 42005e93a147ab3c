// The entry points of the stand-in for NCCL. Like NCCL's, some of them call others by their
// exported names, and so by whatever the loader has bound those to: then it says so and ends the
// process.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/software_nccl/library/arithmetic.h"
#include "tests/software_nccl/library/comm.h"
#include "tests/software_nccl/library/settings.h"

namespace {

using softnccl::Kind;
using softnccl::Launch;
using softnccl::Message;
using softnccl::settings;

/// Of this thread: how often each of its own functions was entered by name.
thread_local uint64_t entered = 0;

/// Calls a function of the library by its name. It is no call of the library's if nothing of it
/// was entered.
template <class Function, class... Arguments>
ncclResult_t by_name(const char* name, Function function, Arguments... arguments) {
  const uint64_t before = entered;
  const ncclResult_t result = function(arguments...);
  if (entered != before) return result;
  softnccl::log(std::string("stray ") + name);
  std::fprintf(stderr, "the stand-in's call of %s went to another library\n", name);
  std::abort();
}

struct Group {
  int depth = 0;
  std::vector<std::unique_ptr<Launch>> launches;
};

Group& group() {
  static thread_local Group known;
  return known;
}

/// The words of the last failure, of any thread.
std::atomic<const char*>& last_error() {
  static std::atomic<const char*> text{""};
  return text;
}

ncclResult_t refuse(ncclResult_t result, const char* why) {
  last_error().store(why);
  return result;
}

/// All that the group holds goes into its streams: the sends and receives of one stream as one.
ncclResult_t put_all() {
  std::vector<std::unique_ptr<Launch>> merged;
  for (std::unique_ptr<Launch>& one : group().launches) {
    const auto known = std::find_if(merged.begin(), merged.end(), [&](const auto& other) {
      return one->kind == Kind::kTransfers && other->kind == Kind::kTransfers &&
             other->comm == one->comm && other->stream == one->stream;
    });
    if (known == merged.end()) {
      merged.push_back(std::move(one));
    } else {
      (*known)->messages.push_back(one->messages.front());
    }
  }
  group().launches.clear();
  for (std::unique_ptr<Launch>& one : merged) {
    if (const ncclResult_t put = softnccl::launch(std::move(one)); put != ncclSuccess) {
      return refuse(put, "a kernel could not be launched");
    }
  }
  return ncclSuccess;
}

ncclResult_t add(Launch launch, ncclComm* comm, cudaStream_t stream) {
  ++entered;
  softnccl::log("call " + std::to_string(static_cast<int>(launch.kind)));
  if (comm == nullptr) return ncclInvalidArgument;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = by_name("ncclCommGetAsyncError", &ncclCommGetAsyncError, comm, &state);
  if (asked != ncclSuccess) return asked;
  if (state != ncclSuccess) return refuse(ncclInvalidUsage, "the communicator is not ready");
  if (comm->memory == 0) return refuse(ncclInvalidUsage, "the communicator has no memory");
  if (launch.kind != Kind::kTransfers && softnccl::bytes_of(launch.type) == 0) {
    return refuse(ncclInvalidArgument, "no such type");
  }
  launch.comm = comm;
  launch.stream = stream;
  const int made = static_cast<int>(launch.op) - ncclNumOps;
  if (made >= 0) {
    if (made >= static_cast<int>(comm->factors.size())) return ncclInvalidArgument;
    launch.is_scaled = true;
    launch.factor = comm->factors[static_cast<size_t>(made)];
  }
  group().launches.push_back(std::make_unique<Launch>(std::move(launch)));
  return group().depth > 0 ? ncclSuccess : put_all();
}

ncclResult_t add_message(const Message& message, ncclComm* comm, cudaStream_t stream) {
  Launch launch;
  launch.kind = Kind::kTransfers;
  launch.messages.push_back(message);
  return add(std::move(launch), comm, stream);
}

void make(ncclComm* comm) {
  const auto is_aborted = [comm] { return comm->aborted.load(); };
  const bool is_meant = settings().is_about(comm->rank);
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(is_meant ? settings().init_ms : 0);
  const auto is_ready = [&] {
    return comm->board->arrived.load() >= static_cast<uint32_t>(comm->ranks) &&
           std::chrono::steady_clock::now() >= until;
  };
  if (is_meant && settings().init_result != 0) {
    comm->state.store(refuse(static_cast<ncclResult_t>(settings().init_result),
                             "Failed to CUDA calloc 6291456 bytes: out of memory"));
    return;
  }
  while (!is_ready() && !is_aborted()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  comm->state.store(is_aborted() ? ncclInternalError : ncclSuccess);
}

/// The layouts of 2.18 and of 2.27, which differ in their ends.
ncclResult_t check(const ncclConfig_t& config) {
  if (settings().config_result != 0) {
    return refuse(static_cast<ncclResult_t>(settings().config_result),
                  "the configuration is refused");
  }
  const bool is_long = config.version >= 22700;
  const size_t bytes = is_long ? offsetof(ncclConfig_t, nChannelsPerNetPeer)
                               : offsetof(ncclConfig_t, trafficClass) + sizeof(int);
  const bool fits = config.magic == NCCL_API_MAGIC && config.size == bytes &&
                    config.version <= static_cast<unsigned>(settings().version);
  return fits ? ncclSuccess : refuse(ncclInvalidArgument, "a configuration of another version");
}

/// All ranks have come to their switch of this number. As in NCCL, it waits for them.
bool meet_to_switch(ncclComm* comm) {
  const uint64_t number = ++comm->switches;
  comm->board->switches[comm->rank].store(number);
  for (int rank = 0; rank < comm->ranks; ++rank) {
    while (comm->board->switches[rank].load() < number) {
      if (comm->aborted.load()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return true;
}

/// Suspends, or resumes: `result` is what the rank that is meant says instead.
template <class Switch>
ncclResult_t switch_memory(ncclComm* comm, bool is_to_have, long result, Switch make) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = by_name("ncclCommGetAsyncError", &ncclCommGetAsyncError, comm, &state);
  if (comm == nullptr || asked != ncclSuccess) return ncclInvalidArgument;
  if (state != ncclSuccess || (comm->memory != 0) != is_to_have) {
    return refuse(ncclInvalidUsage, "the communicator cannot do so now");
  }
  if (settings().is_about(comm->rank) && result != 0) {
    while (result < 0 && !comm->aborted.load()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (result < 0) return ncclInternalError;
    return refuse(static_cast<ncclResult_t>(result), "its memory stays where it is");
  }
  return meet_to_switch(comm) ? make() : ncclInternalError;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  ++entered;
  *version = static_cast<int>(settings().version);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  ++entered;
  return result == ncclSuccess ? "no error" : "an error of the stand-in";
}

const char* ncclGetLastError(ncclComm_t) {
  ++entered;
  return last_error().load();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  ++entered;
  std::memset(id->internal, 0, sizeof(id->internal));
  softnccl::name_board(id->internal);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  ++entered;
  int version = 0;
  (void)by_name("ncclGetVersion", &ncclGetVersion, &version);
  softnccl::log("init " + std::to_string(rank) + " of " + std::to_string(ranks));
  if (ranks > softnccl::kMostRanks) return refuse(ncclInvalidArgument, "too many ranks");
  if (const ncclResult_t taken = check(*config); taken != ncclSuccess) return taken;
  if (const ncclResult_t loaded = softnccl::load_kernels(); loaded != ncclSuccess) {
    return refuse(loaded, "the driver is not the software device");
  }
  auto* const comm = new ncclComm;
  comm->rank = rank;
  comm->ranks = ranks;
  comm->blocking = config->blocking != 0;
  comm->id = id.internal;
  comm->board = softnccl::open_board(id.internal, ranks);
  if (comm->board == nullptr) return refuse(ncclSystemError, "no shared memory");
  if (const ncclResult_t taken = softnccl::take_memory(comm); taken != ncclSuccess) {
    return refuse(taken, "no device memory");
  }
  *out = comm;
  comm->making = std::thread(make, comm);
  if (!comm->blocking) return ncclInProgress;
  comm->making.join();
  return comm->state.load();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  ++entered;
  if (comm == nullptr) return ncclInvalidArgument;
  *result = comm->failed.load() ? ncclRemoteError : comm->state.load();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  ++entered;
  return comm->state.load() == ncclSuccess ? ncclSuccess : ncclInvalidUsage;
}

/// Graphs may still have kernels of it: what these name stays.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  ++entered;
  if (comm->making.joinable()) comm->making.join();
  while (comm->running.load() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  softnccl::give_memory_back(comm);
  softnccl::log("destroyed");
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  ++entered;
  softnccl::log("aborted");
  comm->aborted.store(true);
  return by_name("ncclCommDestroy", &ncclCommDestroy, comm);
}

#ifndef SOFTNCCL_LACKS_SUSPEND
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags) {
  ++entered;
  softnccl::log("suspend");
  if (flags != NCCL_SUSPEND_MEM) return refuse(ncclInvalidArgument, "no such flags");
  return switch_memory(comm, true, settings().suspend_result, [comm] {
    softnccl::give_memory_back(comm);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommResume(ncclComm_t comm) {
  ++entered;
  softnccl::log("resume");
  return switch_memory(comm, false, settings().resume_result,
                       [comm] { return softnccl::take_memory(comm); });
}

ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value) {
  ++entered;
  if (comm == nullptr || value == nullptr) return ncclInvalidArgument;
  *value = static_cast<uint64_t>(settings().memory_kb) << 10;
  if (stat == ncclStatGpuMemSuspended) *value = comm->memory == 0 ? 1 : 0;
  if (stat == ncclStatGpuMemPersist) *value = 0;
  return ncclSuccess;
}
#endif

ncclResult_t ncclGroupStart() {
  ++entered;
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  ++entered;
  if (group().depth == 0) return ncclInvalidUsage;
  return --group().depth > 0 ? ncclSuccess : put_all();
}

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add({.kind = Kind::kAllReduce,
              .send = static_cast<const char*>(send),
              .recv = static_cast<char*>(recv),
              .count = count,
              .type = type,
              .op = op},
             comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return add({.kind = Kind::kReduce,
              .send = static_cast<const char*>(send),
              .recv = static_cast<char*>(recv),
              .count = count,
              .type = type,
              .op = op,
              .root = root},
             comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add({.kind = Kind::kBroadcast,
              .send = static_cast<const char*>(send),
              .recv = static_cast<char*>(recv),
              .count = count,
              .type = type,
              .root = root},
             comm, stream);
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  ++entered;
  return by_name("ncclBroadcast", &ncclBroadcast, static_cast<const void*>(buffer), buffer, count,
                 type, root, comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return add({.kind = Kind::kAllGather,
              .send = static_cast<const char*>(send),
              .recv = static_cast<char*>(recv),
              .count = count,
              .type = type},
             comm, stream);
}

#ifndef SOFTNCCL_LACKS_REDUCE_SCATTER
ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add({.kind = Kind::kReduceScatter,
              .send = static_cast<const char*>(send),
              .recv = static_cast<char*>(recv),
              .count = count,
              .type = type,
              .op = op},
             comm, stream);
}
#endif

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add_message(
      {true, static_cast<char*>(const_cast<void*>(data)), count * softnccl::bytes_of(type), peer},
      comm, stream);
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_message({false, static_cast<char*>(data), count * softnccl::bytes_of(type), peer},
                     comm, stream);
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  ++entered;
  softnccl::Factor factor;
  if (residence == ncclScalarDevice) {
    factor.memory = scalar;
  } else {
    std::memcpy(factor.value, scalar, softnccl::bytes_of(type));
  }
  *op = static_cast<ncclRedOp_t>(ncclNumOps + comm->factors.size());
  comm->factors.push_back(factor);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t) {
  ++entered;
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t, void* memory, size_t, void** handle) {
  ++entered;
  *handle = memory;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t, void*) {
  ++entered;
  return ncclSuccess;
}

}  // extern "C"
