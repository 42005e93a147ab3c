/* A library to preload that counts the calls of ncclAllReduce and passes them on. */
#include NCCL_HEADER

__typeof__(ncclAllReduce) pncclAllReduce;

static int calls = 0;

int interposed_calls(void) { return calls; }

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  ++calls;
  return pncclAllReduce(send, recv, count, type, op, comm, stream);
}
