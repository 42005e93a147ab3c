// The collectives with a configuration, of NCCL 2.31: the same calls with options of their own.
#include "plugins/nccl/call_config.h"
#include "plugins/nccl/comm.h"
#include "plugins/nccl/group.h"

using namespace tutti::nccl;

namespace {

/// A call of these arguments; what a collective does not have it does not read.
tuttiCall_t call_of(tuttiCollective_t collective, const void* send, void* recv, size_t count,
                    ncclDataType_t type) {
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  call.collective = collective;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.type = type_of(type);
  return call;
}

ncclResult_t run_configured(const tuttiCall_t& call, ncclComm_t comm, const char* function,
                            const ncclCollConfig_t* config) {
  CallConfig read;
  const ncclResult_t bad = read_call_config(config, function, read);
  if (bad != ncclSuccess) return part_of_group(bad);
  const void* const buffers[] = {call.send, call.recv};
  return operate(comm, function, buffers, [&](tuttiComm_t tutti) {
    const tuttiOptions_t* options = read.given ? &read.options : nullptr;
    return tuttiSubmit(&call, tutti, tuttiBlocking(), options, nullptr);
  });
}

}  // namespace

extern "C" {

ncclResult_t pncclAllReduceConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t,
                                  const ncclCollConfig_t* config) {
  tuttiCall_t call = call_of(tuttiCollAllReduce, send, recv, count, type);
  call.op = op_of(op);
  return run_configured(call, comm, "ncclAllReduceConfig", config);
}

ncclResult_t pncclBroadcastConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                  int root, ncclComm_t comm, cudaStream_t,
                                  const ncclCollConfig_t* config) {
  tuttiCall_t call = call_of(tuttiCollBroadcast, send, recv, count, type);
  call.root = root;
  return run_configured(call, comm, "ncclBroadcastConfig", config);
}

ncclResult_t pncclReduceConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t,
                               const ncclCollConfig_t* config) {
  tuttiCall_t call = call_of(tuttiCollReduce, send, recv, count, type);
  call.op = op_of(op);
  call.root = root;
  return run_configured(call, comm, "ncclReduceConfig", config);
}

ncclResult_t pncclAllGatherConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t, const ncclCollConfig_t* config) {
  const tuttiCall_t call = call_of(tuttiCollAllGather, send, recv, count, type);
  return run_configured(call, comm, "ncclAllGatherConfig", config);
}

ncclResult_t pncclReduceScatterConfig(const void* send, void* recv, size_t count,
                                      ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                      cudaStream_t, const ncclCollConfig_t* config) {
  tuttiCall_t call = call_of(tuttiCollReduceScatter, send, recv, count, type);
  call.op = op_of(op);
  return run_configured(call, comm, "ncclReduceScatterConfig", config);
}

ncclResult_t pncclAlltoAllConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                 ncclComm_t comm, cudaStream_t, const ncclCollConfig_t* config) {
  const tuttiCall_t call = call_of(tuttiCollAllToAll, send, recv, count, type);
  return run_configured(call, comm, "ncclAlltoAllConfig", config);
}

ncclResult_t pncclGatherConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                               int root, ncclComm_t comm, cudaStream_t,
                               const ncclCollConfig_t* config) {
  tuttiCall_t call = call_of(tuttiCollGather, send, recv, count, type);
  call.root = root;
  return run_configured(call, comm, "ncclGatherConfig", config);
}

ncclResult_t pncclScatterConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                int root, ncclComm_t comm, cudaStream_t,
                                const ncclCollConfig_t* config) {
  tuttiCall_t call = call_of(tuttiCollScatter, send, recv, count, type);
  call.root = root;
  return run_configured(call, comm, "ncclScatterConfig", config);
}

[[gnu::weak,
  gnu::alias("pncclAllReduceConfig")]] decltype(pncclAllReduceConfig) ncclAllReduceConfig;
[[gnu::weak,
  gnu::alias("pncclBroadcastConfig")]] decltype(pncclBroadcastConfig) ncclBroadcastConfig;
[[gnu::weak, gnu::alias("pncclReduceConfig")]] decltype(pncclReduceConfig) ncclReduceConfig;
[[gnu::weak,
  gnu::alias("pncclAllGatherConfig")]] decltype(pncclAllGatherConfig) ncclAllGatherConfig;
[[gnu::weak,
  gnu::alias(
      "pncclReduceScatterConfig")]] decltype(pncclReduceScatterConfig) ncclReduceScatterConfig;
[[gnu::weak, gnu::alias("pncclAlltoAllConfig")]] decltype(pncclAlltoAllConfig) ncclAlltoAllConfig;
[[gnu::weak, gnu::alias("pncclGatherConfig")]] decltype(pncclGatherConfig) ncclGatherConfig;
[[gnu::weak, gnu::alias("pncclScatterConfig")]] decltype(pncclScatterConfig) ncclScatterConfig;

}  // extern "C"
