/* Calls as values, with options and a handle of their own. A part of tutti.h, which includes it. */
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
 * call's handle, or NULL after an error; every handle ends with tuttiRequestWait(). */
TUTTI_API tuttiResult_t tuttiSubmit(const tuttiCall_t* call, tuttiComm_t comm, tuttiStream_t stream,
                                    const tuttiOptions_t* options, tuttiRequest_t* request);
/* *done becomes 1 once the call has completed: at once on a BLOCKING stream, at its end in a group.
 * Then the result is the call's. A handle may outlive its communicator. Threads: any may test until
 * one waits; who comes while that one waits gets tuttiInvalidUsage. Once the wait has returned the
 * handle must not be used: it may be that of a later call. */
TUTTI_API tuttiResult_t tuttiRequestTest(tuttiRequest_t request, int* done);
/* Waits until the call has completed, frees the handle and returns the call's result. In the thread
 * that has yet to end the call's group it is tuttiInvalidUsage. */
TUTTI_API tuttiResult_t tuttiRequestWait(tuttiRequest_t request);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_REQUESTS_H_ */
