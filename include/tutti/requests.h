/* Calls as values, with options and a handle of their own. A part of tutti.h, which includes it.
 *
 * A request is tested, waited for, waited for up to a limit, or tells by itself that its call has
 * completed, whatever the stream. In all of these the result is the call's.
 *
 * Owns:    the library has the request until it is waited for; a handle may outlive its
 *          communicator. Once a wait has returned anything but tuttiInProgress the handle must not
 *          be used: it may be that of a later call.
 * Threads: any. A thread that comes while another one waits gets tuttiInvalidUsage.
 * Ends:    what fails, aborts or revokes a communicator completes its requests with that error, as
 *          a group that is refused, simulated or discarded does with tuttiInvalidUsage.
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

/* The arguments of the function of the same name; what it does not have is not read. The
 * send_count, counts and offsets of tuttiAllGatherV() are here count, recv_counts and recv_offsets;
 * the counts of tuttiReduceScatterV() are send_counts. */
typedef struct {
  size_t size; /* sizeof(tuttiCall_t) */
  tuttiCollective_t collective;
  const void* send;
  void* recv;
  size_t count;
  const size_t* send_counts; /* these four: of collectives with a count for each rank */
  const size_t* send_offsets;
  const size_t* recv_counts;
  const size_t* recv_offsets;
  tuttiDataType_t type;
  tuttiRedOp_t op;
  int root; /* of a send or recv: the peer */
} tuttiCall_t;

#define TUTTI_CALL_INITIALIZER                                                               \
  {                                                                                          \
    sizeof(tuttiCall_t), tuttiCollBarrier, NULL, NULL, 0, NULL, NULL, NULL, NULL, tuttiInt8, \
        tuttiSum, 0                                                                          \
  }

typedef struct tuttiRequest* tuttiRequest_t;

/* The same as the function of the collective's name. `options` are this call's alone, in the place
 * of all that tuttiCommSetOptions() set; NULL: those. If `request` is not NULL it becomes the
 * call's handle, or NULL after an error; every handle ends with a wait. */
TUTTI_API tuttiResult_t tuttiSubmit(const tuttiCall_t* call, tuttiComm_t comm, tuttiStream_t stream,
                                    const tuttiOptions_t* options, tuttiRequest_t* request);
/* *done becomes 1 once the call has completed: at once on a BLOCKING stream, at its end in a group.
 * Then the result is the call's. */
TUTTI_API tuttiResult_t tuttiRequestTest(tuttiRequest_t request, int* done);
/* Waits until the call has completed, frees the handle and returns the call's result. In the thread
 * that has yet to end the call's group it is tuttiInvalidUsage. */
TUTTI_API tuttiResult_t tuttiRequestWait(tuttiRequest_t request);
/* The same for at most so long (0: looks; UINT64_MAX: no limit). tuttiInProgress if the call has
 * not completed by then: the handle stays good, the call goes on, the communicator is as it was.
 * (A call that is to fail after a time has tuttiOptions_t.timeout_ns.) */
TUTTI_API tuttiResult_t tuttiRequestWaitFor(tuttiRequest_t request, uint64_t timeout_ns);

/* `result` is the call's, of which tuttiGetLastError(NULL) has the text in the callback. */
typedef void (*tuttiRequestCallback_t)(tuttiRequest_t request, tuttiResult_t result, void* context);
/* Calls `callback` once when the call has completed, at once if it has. A request has at most one
 * callback: a second is tuttiInvalidUsage. To end the handle is still the caller's to do, in the
 * callback or anywhere else; a thread that waits meanwhile may return before the callback does.
 *
 * Threads: the one that completes the call. For HOST streams that is the library's engine, which
 *          runs all HOST streams of the process: a callback is short. In a group of BLOCKING calls
 *          it is the thread that ends the group, when all of it has run; for a call that has
 *          completed the thread of this call.
 * Allowed: what does not wait, on the request and elsewhere: HOST streams, groups of calls on them,
 *          a wait for a request that has completed. Calls that would wait for operations there, or
 * end a communicator, are tuttiInvalidUsage. An exception that leaves it ends the process. To wake
 * a loop that polls descriptors, write to an eventfd. Ends:    when tuttiCommDestroy, Abort or
 * Finalize returns, the callbacks of the communicator's calls on HOST streams have returned. In a
 * forked child none is called. */
TUTTI_API tuttiResult_t tuttiRequestNotify(tuttiRequest_t request, tuttiRequestCallback_t callback,
                                           void* context);
/* When the call began to run, behind those before it, and when it had completed, by
 * CLOCK_MONOTONIC; 0: not yet, or it never ran. A call without elements takes no time. */
TUTTI_API tuttiResult_t tuttiRequestGetTimes(tuttiRequest_t request, uint64_t* began_ns,
                                             uint64_t* ended_ns);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_REQUESTS_H_ */
