// The collectives with a configuration, of NCCL 2.31: the same calls with options of their own.
#include "plugins/nccl/call_config.h"
#include "plugins/nccl/caught.h"
#include "plugins/nccl/comm.h"
#include "plugins/nccl/group.h"

using namespace tutti::nccl;

namespace {

/// A collective reads only those that it has.
struct Arguments {
  cudaStream_t stream;
  const void* send;
  void* recv;
  size_t count;
  tuttiDataType_t type;
  tuttiRedOp_t op = tuttiSum;
  int root = 0;
};

tuttiCall_t call_of(tuttiCollective_t collective, const Arguments& arguments) {
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  call.collective = collective;
  call.send = arguments.send;
  call.recv = arguments.recv;
  call.count = arguments.count;
  call.type = arguments.type;
  call.op = arguments.op;
  call.root = arguments.root;
  return call;
}

/// The name is that of the function, for messages.
template <tuttiCollective_t kCollective>
ncclResult_t run(const char* function, const Arguments& arguments, ncclComm_t comm,
                 const ncclCollConfig_t* config) {
  CallConfig read;
  const std::string wrong = read_call_config(config, read);
  if (!wrong.empty()) return part_of_group(refuse(function, wrong));
  const Operands operands = {
      {arguments.send, arguments.recv}, arguments.stream, static_cast<int>(arguments.op)};
  return operate(comm, function, operands, [&](tuttiComm_t tutti, tuttiStream_t where) {
    const tuttiCall_t call = call_of(kCollective, arguments);
    const tuttiOptions_t* options = read.given ? &read.options : nullptr;
    return tuttiSubmit(&call, tutti, where, options, nullptr);
  });
}

}  // namespace

extern "C" {

ncclResult_t pncclAllReduceConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                                  const ncclCollConfig_t* config) {
  return caught([&] {
    return run<tuttiCollAllReduce>(
        "ncclAllReduceConfig", {stream, send, recv, count, type_of(type), op_of(op)}, comm, config);
  });
}

ncclResult_t pncclBroadcastConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                  int root, ncclComm_t comm, cudaStream_t stream,
                                  const ncclCollConfig_t* config) {
  return caught([&] {
    return run<tuttiCollBroadcast>("ncclBroadcastConfig",
                                   {stream, send, recv, count, type_of(type), tuttiSum, root}, comm,
                                   config);
  });
}

ncclResult_t pncclReduceConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                               const ncclCollConfig_t* config) {
  return caught([&] {
    return run<tuttiCollReduce>("ncclReduceConfig",
                                {stream, send, recv, count, type_of(type), op_of(op), root}, comm,
                                config);
  });
}

ncclResult_t pncclAllGatherConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t stream,
                                  const ncclCollConfig_t* config) {
  return caught([&] {
    return run<tuttiCollAllGather>("ncclAllGatherConfig",
                                   {stream, send, recv, count, type_of(type)}, comm, config);
  });
}

ncclResult_t pncclReduceScatterConfig(const void* send, void* recv, size_t count,
                                      ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                      cudaStream_t stream, const ncclCollConfig_t* config) {
  return caught([&] {
    return run<tuttiCollReduceScatter>("ncclReduceScatterConfig",
                                       {stream, send, recv, count, type_of(type), op_of(op)}, comm,
                                       config);
  });
}

ncclResult_t pncclAlltoAllConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                 ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t* config) {
  return caught([&] {
    return run<tuttiCollAllToAll>("ncclAlltoAllConfig", {stream, send, recv, count, type_of(type)},
                                  comm, config);
  });
}

ncclResult_t pncclGatherConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                               int root, ncclComm_t comm, cudaStream_t stream,
                               const ncclCollConfig_t* config) {
  return caught([&] {
    return run<tuttiCollGather>("ncclGatherConfig",
                                {stream, send, recv, count, type_of(type), tuttiSum, root}, comm,
                                config);
  });
}

ncclResult_t pncclScatterConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                int root, ncclComm_t comm, cudaStream_t stream,
                                const ncclCollConfig_t* config) {
  return caught([&] {
    return run<tuttiCollScatter>("ncclScatterConfig",
                                 {stream, send, recv, count, type_of(type), tuttiSum, root}, comm,
                                 config);
  });
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
