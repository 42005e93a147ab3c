/* A stream says where and when operations run. It is passed by value. A part of tutti.h, which
 * includes it.
 *
 * Errors: see tutti.h; a stream of an unknown kind is tuttiInvalidArgument. */
#include "tutti.h" /* comes first, for a program that includes only this file */

#ifndef TUTTI_STREAMS_H_
#define TUTTI_STREAMS_H_

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  tuttiStreamBlocking = 0, /* the calling thread runs the operation, and the call returns when it
                              has completed; in a group the outermost tuttiGroupEnd() does both */
  tuttiStreamHost = 1,     /* an ordered queue that a thread of the library runs; a call puts its
                              operation into the queue and returns at once */
  tuttiStreamDevice = 2    /* a stream of a device, for example of CUDA; calls return at once */
} tuttiStreamKind_t;

typedef struct {
  uint32_t kind;     /* tuttiStreamKind_t */
  uint32_t reserved; /* 0 */
  void* handle;      /* NULL for BLOCKING */
} tuttiStream_t;

/* The BLOCKING stream. It has the lowest latency, since there is no other thread and no queue. */
static inline tuttiStream_t tuttiBlocking(void) {
  tuttiStream_t stream = {tuttiStreamBlocking, 0, NULL};
  return stream;
}

/* The stream of Tutti for a CUDA stream: `cuda_stream` is a CUstream or a cudaStream_t. NULL is the
 * legacy default stream; this one, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are of the
 * communicator's device in a call, whatever device is current, and for a communicator without a
 * device of the one that is current in the calling thread.
 *
 * Buffers:  each buffer of a call is either memory of the stream's device or host memory. If copy
 *           engines run the call (docs/devices.md), host memory must be pinned; other host memory
 *           is tuttiInvalidArgument then. A device buffer on a BLOCKING or HOST stream is
 *           tuttiInvalidArgument, too.
 * Ordering: an operation begins when the work that the stream held before the call is done, and
 *           work that is put into the stream later begins when the operation has completed. The
 *           stream waits for the other ranks, but the host does not. Operations of one communicator
 *           run in the order of their calls, also on several streams.
 * Errors:   an error that is found during the call is returned. An operation that fails later fails
 *           the communicator (tuttiCommGetAsyncError()); its stream goes on, and the contents of
 *           the buffers that the operation should have written are undefined.
 * Owns:     the stream stays the caller's. Buffers must stay valid until the stream has passed the
 *           operation, which cudaStreamSynchronize(), an event or tuttiRequestWait() can tell.
 * Capture:  a call on a stream that is being captured becomes part of the graph and runs whenever
 *           the graph does; a request of the call has completed at once. All ranks capture the same
 *           calls and launch the same graphs in the same order, also in relation to other calls.
 *           Buffers must stay valid as long as the graph may run.
 * Devices:  one process may have several ranks if each has a device of its own. Parts of windows
 *           (windows.h) lie in host memory, whatever memory is put from or got into.
 */
static inline tuttiStream_t tuttiStreamCuda(void* cuda_stream) {
  tuttiStream_t stream = {tuttiStreamDevice, 0, cuda_stream};
  return stream;
}

/* Makes a HOST stream. It is the caller's until tuttiStreamDestroy(). */
TUTTI_API tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream);
/* Waits until all operations in the stream have completed. It returns the first error of those that
 * were queued since it was last called; operations behind a failed one ran all the same. A device's
 * stream is tuttiInvalidArgument here, since it has functions of its own for that.
 * Threads: any. */
TUTTI_API tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream);
/* Waits as tuttiStreamSynchronize() does, frees the stream, and returns the same error. The stream
 * must not be used or destroyed again: unlike with a communicator, that is not detected. */
TUTTI_API tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream);

/* Allocates memory for the buffers of calls on that stream. For a DEVICE stream it is memory of the
 * stream's device, from CUDA's virtual memory interface: kernels and copies use it like memory of
 * cudaMalloc(), and Tutti can share it with other processes. It has whole pages, usually of 2 MiB,
 * with undefined contents. The stream may be one that is being captured. For any other stream the
 * call is tuttiMemAlloc().
 * Owns:    the memory is the caller's until tuttiMemFree(). For device memory tuttiMemFree() may
 *          wait for all work of the device; do not call it while that work waits for a rank that
 *          this thread drives.
 * Errors:  tuttiInvalidArgument: 0 bytes. tuttiInvalidUsage: no CUDA driver is loaded, or the
 *          stream is the legacy one and no device is current. tuttiSystemError: memory runs out.
 * Threads: any. */
TUTTI_API tuttiResult_t tuttiMemAllocFor(void** memory, size_t bytes, tuttiStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_STREAMS_H_ */
