/* A call can be a value, with options of its own and a request: a handle of this one call. A part
 * of tutti.h, which includes it.
 *
 * Whatever the stream, a request can be tested, waited for with or without a limit, or notify the
 * caller when its call has completed. The result is always that of the call.
 *
 * Owns:    the library owns the request until a wait for it has returned anything but
 *          tuttiInProgress. Then the handle must not be used any more, since it may already belong
 *          to a later call. A request may outlive its communicator.
 * Threads: any. A thread that waits for a request while another one does gets tuttiInvalidUsage.
 * Ends:    when a communicator fails, is aborted or is revoked, its requests complete with that
 *          error. The requests of a group that is refused, simulated or discarded complete with
 *          tuttiInvalidUsage.
 */
#ifndef TUTTI_REQUESTS_H_
#define TUTTI_REQUESTS_H_

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  tuttiCollAllReduce = 0,
  tuttiCollAllGather = 1,
  tuttiCollReduceScatter = 2,
  tuttiCollBroadcast = 3,
  tuttiCollAllToAll = 4,
  tuttiCollBarrier = 5,
  tuttiCollReduce = 6,
  tuttiCollGather = 7,
  tuttiCollScatter = 8,
  tuttiCollAllGatherV = 9,
  tuttiCollReduceScatterV = 10,
  tuttiCollAllToAllV = 11,
  tuttiCollSend = 12,
  tuttiCollRecv = 13
} tuttiCollective_t;

/* The arguments of the function of the same name. Fields that this function has no argument for are
 * not read. The send_count, counts and offsets of tuttiAllGatherV() are `count`, `recv_counts` and
 * `recv_offsets` here, and the counts of tuttiReduceScatterV() are `send_counts`. */
typedef struct {
  size_t size; /* sizeof(tuttiCall_t) */
  tuttiCollective_t collective;
  const void* send;
  void* recv;
  size_t count;
  const size_t* send_counts; /* these four are for collectives with a count for each rank */
  const size_t* send_offsets;
  const size_t* recv_counts;
  const size_t* recv_offsets;
  tuttiDataType_t type;
  tuttiRedOp_t op;
  int root; /* for a send or a receive: the peer */
} tuttiCall_t;

#define TUTTI_CALL_INITIALIZER                                                               \
  {                                                                                          \
    sizeof(tuttiCall_t), tuttiCollBarrier, NULL, NULL, 0, NULL, NULL, NULL, NULL, tuttiInt8, \
        tuttiSum, 0                                                                          \
  }

typedef struct tuttiRequest* tuttiRequest_t;

/* Does the same as the function of the collective's name. `options` hold for this call alone and
 * replace all options that tuttiCommSetOptions() set; NULL leaves those in force. If `request` is
 * not NULL, *request becomes the handle of the call, or NULL after an error. The caller must wait
 * for every handle, which frees it. `call` and `options` are read during this call. */
TUTTI_API tuttiResult_t tuttiSubmit(const tuttiCall_t* call, tuttiComm_t comm, tuttiStream_t stream,
                                    const tuttiOptions_t* options, tuttiRequest_t* request);
/* Sets *done to 1 if the call has completed, and then returns the call's result; else to 0. A call
 * on a BLOCKING stream has completed at once, or in a group when the group ends. */
TUTTI_API tuttiResult_t tuttiRequestTest(tuttiRequest_t request, int* done);
/* Waits until the call has completed, frees the handle and returns the call's result. It is
 * tuttiInvalidUsage in the thread that has yet to end the call's group. */
TUTTI_API tuttiResult_t tuttiRequestWait(tuttiRequest_t request);
/* The same, but waits for at most `timeout_ns` (0: not at all; UINT64_MAX: without a limit). If the
 * call has not completed by then it returns tuttiInProgress; the handle stays valid, the call goes
 * on, and the communicator is as it was. (For a call that should fail after some time, set
 * tuttiOptions_t.timeout_ns.) */
TUTTI_API tuttiResult_t tuttiRequestWaitFor(tuttiRequest_t request, uint64_t timeout_ns);

/* `result` is that of the call; during the callback tuttiGetLastError(NULL) has its message. */
typedef void (*tuttiRequestCallback_t)(tuttiRequest_t request, tuttiResult_t result, void* context);
/* Has `callback` called once, with `context`, when the call has completed; at once if it has
 * completed already. A request has at most one callback; a second one is tuttiInvalidUsage. The
 * callback does not free the handle: the caller still waits for the request, in the callback or
 * anywhere else. A wait in another thread may return before the callback does.
 *
 * Threads: the callback runs in the thread that completes the call. For HOST streams that is the
 *          one thread that runs all HOST streams of the process, so a callback should be short. For
 *          a group of calls on BLOCKING streams it is the thread that ends the group, when all of
 *          the group has run; for a call that has completed already it is the calling thread.
 * Allowed: a callback may do everything that does not wait, on this communicator and on others:
 *          calls on HOST streams, groups of these, waits for requests that have completed. Calls
 *          that would wait for operations, or that end a communicator, are tuttiInvalidUsage in it.
 *          An exception that leaves the callback ends the process. To wake a loop that polls
 *          descriptors, write to an eventfd.
 * Ends:    when tuttiCommDestroy(), tuttiCommAbort() or tuttiCommFinalize() returns, the callbacks
 *          of the communicator's calls on HOST streams have returned. A child of fork() runs none.
 */
TUTTI_API tuttiResult_t tuttiRequestNotify(tuttiRequest_t request, tuttiRequestCallback_t callback,
                                           void* context);
/* Sets *began_ns to the time at which the call began to run, after those before it, and *ended_ns
 * to the time at which it had completed, both by CLOCK_MONOTONIC. 0 means not yet, or that the call
 * never ran. A call without elements takes no time. */
TUTTI_API tuttiResult_t tuttiRequestGetTimes(tuttiRequest_t request, uint64_t* began_ns,
                                             uint64_t* ended_ns);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_REQUESTS_H_ */
