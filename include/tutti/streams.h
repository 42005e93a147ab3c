/* Streams, by value: where and when operations run. A part of tutti.h, which includes it. */
#include "tutti.h" /* first, for a program that includes this alone */

#ifndef TUTTI_STREAMS_H_
#define TUTTI_STREAMS_H_

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  tuttiStreamBlocking = 0, /* the call runs in the calling thread and returns when it is complete;
                              in a group the outermost GroupEnd does */
  tuttiStreamHost = 1,     /* an ordered queue run by an engine thread; calls return at once */
  tuttiStreamDevice = 2    /* a stream of a device; calls return at once */
} tuttiStreamKind_t;

typedef struct {
  uint32_t kind;     /* tuttiStreamKind_t */
  uint32_t reserved; /* 0 */
  void* handle;      /* NULL for BLOCKING */
} tuttiStream_t;

/* The lowest latency: no thread, no queue. */
static inline tuttiStream_t tuttiBlocking(void) {
  tuttiStream_t stream = {tuttiStreamBlocking, 0, NULL};
  return stream;
}

/* A CUDA stream: a CUstream or a cudaStream_t. NULL is the legacy default stream of the device that
 * is current in the calling thread.
 *
 * Buffers:  device memory of the stream's device, or host memory; each buffer of a call may be
 *           either. Calls that copy engines run (docs/devices.md) take pinned host memory only:
 *           ordinary one is tuttiInvalidArgument. A device buffer on a BLOCKING or HOST stream is
 *           tuttiInvalidArgument, too.
 * Ordering: an operation begins behind what the stream held when it was called, and what is put
 *           into the stream afterwards comes behind the operation. The stream waits for the other
 *           ranks; the host does not. Operations of one communicator run in the order of their
 *           calls, also on several streams.
 * Errors:   what is found when the call is made is returned. An operation that fails later fails
 *           the communicator (tuttiCommGetAsyncError); its stream goes on, and what the operation
 *           should have written is undefined.
 * Owns:     the stream stays the caller's. Buffers must stay until the stream is past the
 *           operation: cudaStreamSynchronize(), an event, or tuttiRequestWait().
 * Capture:  a call on a stream that is captured goes into the graph and runs with it; a request of
 *           it is done at once. All ranks capture the same calls and launch the same graphs, in the
 *           same order, also among other calls. Buffers must stay as long as the graph runs.
 * Devices:  one process may have several ranks if each has a device of its own. One-sided access
 *           (windows.h) takes local host memory only.
 */
static inline tuttiStream_t tuttiStreamCuda(void* cuda_stream) {
  tuttiStream_t stream = {tuttiStreamDevice, 0, cuda_stream};
  return stream;
}

TUTTI_API tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream); /* a HOST stream */
/* Waits until everything queued has completed; returns the first error of an operation queued since
 * its last call. Later operations run all the same. A device's stream is synchronized by its own
 * functions: tuttiInvalidArgument. Threads: any. */
TUTTI_API tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream);
/* Synchronizes, then frees. The stream must not be used any more, nor destroyed again: unlike a
 * communicator, it leaves nothing that would notice. */
TUTTI_API tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream);

/* Memory for the buffers of calls on that stream. DEVICE: memory of the stream's device, made by
 * CUDA's virtual memory interface, so kernels and copies use it like cudaMalloc()'s, and libraries
 * can hand it to other processes; whole pages (2 MiB, usually) of undefined contents; a captured
 * stream will do. Any other kind: tuttiMemAlloc(). The caller's until tuttiMemFree(), which for a
 * device's may wait for all work of the device: not while that waits for a rank of this thread.
 * tuttiInvalidArgument: 0 bytes. tuttiInvalidUsage: no driver is loaded, or the legacy stream where
 * no device is current. tuttiSystemError: memory runs out. Threads: any. */
TUTTI_API tuttiResult_t tuttiMemAllocFor(void** memory, size_t bytes, tuttiStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_STREAMS_H_ */
