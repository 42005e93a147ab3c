/* Collectives, sends, receives and groups. A part of tutti.h, which includes it.
 *
 * Arguments: `count` is a number of elements of `type`; `send` is read and `recv` is written. All
 *            ranks pass the same count, type, operation and root. Their streams may be BLOCKING on
 *            some ranks and HOST on others; streams of devices are passed by all ranks or by none.
 *            A call whose arguments differ between ranks fails the communicator with
 *            tuttiInvalidUsage.
 * In place:  the two buffers may overlap in one way only. all_reduce, reduce, broadcast and
 *            all_to_all: send == recv. all_gather and gather: send == recv + rank * count.
 *            reduce_scatter and scatter: recv == send + rank * count. Other overlaps are
 *            tuttiInvalidArgument.
 * NULL:      a buffer that only the root has may be NULL on the other ranks, where it is ignored.
 *            A count of 0 is valid, and its buffers may be NULL.
 * Owns, Threads, Ordering, Errors: as tutti.h says. */
#ifndef TUTTI_COLLECTIVES_H_
#define TUTTI_COLLECTIVES_H_

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reduces `count` elements of all ranks element by element; every rank gets the result. */
TUTTI_API tuttiResult_t tuttiAllReduce(const void* send, void* recv, size_t count,
                                       tuttiDataType_t type, tuttiRedOp_t op, tuttiComm_t comm,
                                       tuttiStream_t stream);
/* Gathers `count` elements from each rank on every rank; recv holds ranks * count elements, in rank
 * order. */
TUTTI_API tuttiResult_t tuttiAllGather(const void* send, void* recv, size_t count,
                                       tuttiDataType_t type, tuttiComm_t comm,
                                       tuttiStream_t stream);
/* Reduces ranks * count elements of all ranks; rank r gets `count` elements of the result, those
 * from r * count on. send holds ranks * count elements. */
TUTTI_API tuttiResult_t tuttiReduceScatter(const void* send, void* recv, size_t count,
                                           tuttiDataType_t type, tuttiRedOp_t op, tuttiComm_t comm,
                                           tuttiStream_t stream);
/* Copies `count` elements from the root to every rank, the root included. Only the root has
 * `send`. */
TUTTI_API tuttiResult_t tuttiBroadcast(const void* send, void* recv, size_t count,
                                       tuttiDataType_t type, int root, tuttiComm_t comm,
                                       tuttiStream_t stream);
/* Reduces `count` elements of all ranks; the root gets the result. Only the root has `recv`. */
TUTTI_API tuttiResult_t tuttiReduce(const void* send, void* recv, size_t count,
                                    tuttiDataType_t type, tuttiRedOp_t op, int root,
                                    tuttiComm_t comm, tuttiStream_t stream);
/* Gathers `count` elements from each rank on the root. Only the root has `recv`, which holds
 * ranks * count elements, in rank order. */
TUTTI_API tuttiResult_t tuttiGather(const void* send, void* recv, size_t count,
                                    tuttiDataType_t type, int root, tuttiComm_t comm,
                                    tuttiStream_t stream);
/* Copies `count` elements from the root to each rank. Only the root has `send`, which holds
 * ranks * count elements, in rank order. */
TUTTI_API tuttiResult_t tuttiScatter(const void* send, void* recv, size_t count,
                                     tuttiDataType_t type, int root, tuttiComm_t comm,
                                     tuttiStream_t stream);
/* Copies `count` elements from each rank to each rank. Both buffers hold ranks * count elements:
 * send has those for rank r from r * count on, and recv those from rank r. */
TUTTI_API tuttiResult_t tuttiAllToAll(const void* send, void* recv, size_t count,
                                      tuttiDataType_t type, tuttiComm_t comm, tuttiStream_t stream);
/* Completes on a rank after every rank has called it. */
TUTTI_API tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream);

/* ---- Collectives with a count for each rank ----
 * Counts and offsets are numbers of elements, in arrays of one entry for each rank. The arrays are
 * read during the call and not needed after it returns, whatever the stream. An offset says where
 * in the buffer a rank's block begins; NULL offsets mean that blocks are packed in rank order.
 * Offsets may differ between ranks. Counts may be 0, also all of them; a buffer without elements
 * may be NULL. Blocks that are written must not overlap. Counts that differ between ranks where
 * they must be equal are an error, like any other argument that must be equal.
 * These calls pass data through staging memory, also between threads and with registered buffers.
 * The longest block decides how much is staged at a time, so blocks of similar size run best. */

/* Gathers counts[r] elements from each rank r on every rank. Every rank passes the same counts, and
 * its own entry as `send_count`. In place: send is the address of this rank's block of recv. */
TUTTI_API tuttiResult_t tuttiAllGatherV(const void* send, size_t send_count, void* recv,
                                        const size_t* counts, const size_t* offsets,
                                        tuttiDataType_t type, tuttiComm_t comm,
                                        tuttiStream_t stream);
/* Reduces sum(counts) elements of all ranks; rank r gets counts[r] elements of the result. Every
 * rank passes the same counts; send holds sum(counts) elements, packed in rank order. In place:
 * recv is the address of this rank's block of send. */
TUTTI_API tuttiResult_t tuttiReduceScatterV(const void* send, void* recv, const size_t* counts,
                                            tuttiDataType_t type, tuttiRedOp_t op, tuttiComm_t comm,
                                            tuttiStream_t stream);
/* Sends send_counts[r] elements to each rank r and receives recv_counts[r] elements from it. The
 * count that rank a sends to rank b must be the count that b expects from a, or both fail with
 * tuttiInvalidUsage. If a rank does not know how much it will get, exchange the counts first, with
 * tuttiAllToAll(). In place: send == recv, with equal counts and offsets both ways. */
TUTTI_API tuttiResult_t tuttiAllToAllV(const void* send, const size_t* send_counts,
                                       const size_t* send_offsets, void* recv,
                                       const size_t* recv_counts, const size_t* recv_offsets,
                                       tuttiDataType_t type, tuttiComm_t comm,
                                       tuttiStream_t stream);

/* ---- Scaled sums ----
 * A scaled sum adds what the ranks bring, after each rank's elements were multiplied by that rank's
 * scalar. Each product is rounded to the type before it is added; integers wrap. Every rank passes
 * a scaled sum to the call; the scalars may differ. */

/* Where the scalar is read. */
typedef enum {
  tuttiScalarDevice = 0,       /* from `scalar`, each time a call begins to run */
  tuttiScalarHostImmediate = 1 /* from `scalar`, once, when the operation is made */
} tuttiScalarResidence_t;

/* Makes a scaled sum for calls of `type` on `comm`, and sets *op. It involves no other rank.
 * `scalar` points to one element of `type`; with tuttiScalarDevice it must stay valid until every
 * call that uses the operation has completed. The operation itself may be destroyed as soon as such
 * a call has returned, in a group and on a HOST stream too. */
TUTTI_API tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, void* scalar,
                                                  tuttiDataType_t type,
                                                  tuttiScalarResidence_t residence,
                                                  tuttiComm_t comm);
/* Destroys an operation that tuttiRedOpCreatePreMulSum() made for this communicator. */
TUTTI_API tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm);

/* ---- Send and receive ----
 * The n-th send from rank a to rank b pairs with the n-th receive of b from a. Both must have the
 * same size in bytes, whatever their types; if the sizes differ the communicator fails, on the
 * receiver with tuttiInvalidUsage. A send may return before its receive is called, if its bytes
 * have room on the way, but do not rely on it: put sends and receives that depend on each other
 * into one group. A send to oneself needs an equal receive in the same group. Without it the call
 * is tuttiInvalidUsage, and the group runs no operation; outside of a group it always is. */

/* Sends `count` elements to `peer`. */
TUTTI_API tuttiResult_t tuttiSend(const void* send, size_t count, tuttiDataType_t type, int peer,
                                  tuttiComm_t comm, tuttiStream_t stream);
/* Receives `count` elements from `peer`. */
TUTTI_API tuttiResult_t tuttiRecv(void* recv, size_t count, tuttiDataType_t type, int peer,
                                  tuttiComm_t comm, tuttiStream_t stream);

/* ---- Groups ----
 * The calls between tuttiGroupStart() and the matching outermost tuttiGroupEnd() progress together.
 * A group belongs to the thread that starts it. Groups nest: the calls of inner ones run when the
 * outermost one ends. First communicators are made, then memory is registered, then the operations
 * run. So one thread may make several ranks of a communicator, register memory for them and drive
 * them, each in a group. */

TUTTI_API tuttiResult_t tuttiGroupStart(void);
/* Ends the group and, if it is the outermost one, runs its calls and returns the first error of any
 * of them. A group in which a call was refused runs nothing; then the outermost tuttiGroupEnd()
 * returns the first refusal. */
TUTTI_API tuttiResult_t tuttiGroupEnd(void);
/* Ends the group as tuttiGroupEnd() does, but runs nothing. *nanoseconds becomes the time that its
 * operations should take by the costs that algorithms declare, if no rank is late. It waits for
 * what HOST streams hold of the communicators concerned. Requests of the group complete with
 * tuttiInvalidUsage. A group that makes communicators or registers memory cannot be simulated. */
TUTTI_API tuttiResult_t tuttiGroupSimulateEnd(uint64_t* nanoseconds);
/* Closes all groups of this thread and runs nothing of them, for a program that fails before their
 * end. */
TUTTI_API tuttiResult_t tuttiGroupDiscard(void);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_COLLECTIVES_H_ */
