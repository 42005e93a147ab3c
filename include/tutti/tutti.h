/* Tutti: collective communication over any mix of links. The C API.
 *
 * Shapes and semantics are NCCL's under an own prefix, plus what NCCL lacks. A communicator is a
 * group of ranks; every rank calls the same collectives in the same order with matching arguments.
 *
 * Units:    counts are elements, sizes are bytes, times are nanoseconds unless a name says
 *           otherwise.
 * Owns:     the caller owns every buffer, keeps it valid and does not write to it until the call
 *           has completed: for a BLOCKING stream on return, in a group on return of the outermost
 *           tuttiGroupEnd(); for a HOST stream after tuttiStreamSynchronize().
 * Threads:  different communicators may be used from different threads at the same time; one
 *           communicator by one thread at a time. Any thread may at any time abort, destroy or
 *           revoke it, deregister its memory and ask for its error, its size and its rank.
 * Ordering: operations of a communicator run in the order of their calls, whatever their streams.
 *           In a group collectives come first, in the order of their calls, then all sends and
 *           receives together, then puts, gets and signals, then waits for signals: no call of a
 *           group may use what another one of it gives.
 * Errors:   every function but tuttiGetErrorString() and tuttiGetLastError() returns a
 *           tuttiResult_t; tuttiGetLastError() has the sentence that names the rank, the host, the
 *           operation and what to do. A call that was refused before it ran leaves the communicator
 *           usable. An error found while an operation runs (the ranks' calls differ:
 *           tuttiInvalidUsage; tuttiRemoteError, tuttiTimeout, tuttiSystemError, tuttiUnsupported,
 *           tuttiInternalError) is final: every later operation returns it, and so does
 *           tuttiCommGetAsyncError(), which tells the two apart. One-sided access: see windows.h.
 *           Where memory runs out a call is tuttiSystemError, and final if it had begun.
 *           In a forked child the parent's handles are tuttiInvalidUsage.
 */
#ifndef TUTTI_H_
#define TUTTI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_MAJOR 0
#define TUTTI_MINOR 1
#define TUTTI_PATCH 0
#define TUTTI_VERSION (TUTTI_MAJOR * 10000 + TUTTI_MINOR * 100 + TUTTI_PATCH)

#define TUTTI_API __attribute__((visibility("default")))

/* ---- Results, types, operations (where NCCL has them, by its numbers) ---- */

typedef enum {
  tuttiSuccess = 0,
  tuttiUnhandledCudaError = 1,
  tuttiSystemError = 2,
  tuttiInternalError = 3,
  tuttiInvalidArgument = 4,
  tuttiInvalidUsage = 5,
  tuttiRemoteError = 6,
  tuttiInProgress = 7,
  tuttiTimeout = 8,
  tuttiUnsupported = 9
} tuttiResult_t;

typedef enum {
  tuttiInt8 = 0,
  tuttiUint8 = 1,
  tuttiInt32 = 2,
  tuttiUint32 = 3,
  tuttiInt64 = 4,
  tuttiUint64 = 5,
  tuttiFloat16 = 6,
  tuttiFloat32 = 7,
  tuttiFloat64 = 8,
  tuttiBfloat16 = 9,
  tuttiFloat8e4m3 = 10,
  tuttiFloat8e5m2 = 11,
  tuttiInt16 = 12,
  tuttiUint16 = 13,
  tuttiBool = 14 /* C's bool: a byte of 0 or 1. A sum or maximum is 1 if one is, a product or
                    minimum if all are; it has no average and no scaled sum */
} tuttiDataType_t;

/* 16- and 8-bit floats are added in fp32 and rounded once per hop, in deterministic calls after
 * every addition; tuttiAvg scales floats by 1/n before adding and divides integers (toward zero)
 * after. A NaN on any rank makes the result NaN, for tuttiMax and tuttiMin as well. */
typedef enum {
  tuttiSum = 0,
  tuttiProd = 1,
  tuttiMax = 2,
  tuttiMin = 3,
  tuttiAvg = 4,
  tuttiBitAnd = 5, /* these three: of integers and bools */
  tuttiBitOr = 6,
  tuttiBitXor = 7,
  tuttiMaxRedOp = 0x7fffffff /* values between are what tuttiRedOpCreatePreMulSum made */
} tuttiRedOp_t;

typedef struct tuttiComm* tuttiComm_t;

typedef struct {
  char internal[128];
} tuttiUniqueId;

/* ---- Streams, by value: streams.h ---- */

#ifdef __cplusplus
}
#endif
#include "streams.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ---- Communicators ---- */

TUTTI_API tuttiResult_t tuttiGetVersion(int* version);
/* Makes the id of one new group; one process calls it, or each if TUTTI_ID is HOST:PORT of rank 0.
 * The one process must live until the group is made; with TUTTI_PORT a host has one such id at a
 * time. It holds the group's key: hand it on by a trusted channel, unprinted. It never expires. */
TUTTI_API tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id);
/* The same without the key, for a channel that others can read. Whoever uses the id has the job's
 * key in TUTTI_KEY_FILE (or TUTTI_KEY), from which the group's key follows; tuttiInvalidUsage
 * without it, here and where communicators are made. */
TUTTI_API tuttiResult_t tuttiGetPublicId(tuttiUniqueId* id);

/* By what calls on streams of devices run (docs/devices.md). Others run on the host. */
typedef enum {
  tuttiEngineAuto = 0,  /* the library chooses */
  tuttiEngineHost = 1,  /* through host memory, by the host's processors */
  tuttiEngineCopy = 2,  /* copy engines, and streams that wait for each other: no kernels */
  tuttiEngineKernel = 3 /* the same, with kernels for what is computed */
} tuttiEngine_t;

/* How a communicator is made. A structure of another version may be shorter or longer; what this
 * version does not know must be zero bytes. A NULL configuration: the defaults, or for a
 * communicator made from another one, that one's. */
typedef struct {
  size_t size;         /* sizeof(tuttiConfig_t) */
  int blocking;        /* 1. 0: calls that make or end communicators return tuttiInProgress at once;
                          poll tuttiCommGetAsyncError. Collectives are not concerned: streams are */
  int engine;          /* a tuttiEngine_t, equal on all ranks: what its calls on streams of devices
                          take where they can. AUTO: what TUTTI_ENGINE says */
  const char* name;    /* for messages and traces, copied up to 128 bytes; NULL: none */
  uint64_t timeout_ns; /* default deadline of its calls; 0: TUTTI_TIMEOUT (seconds);
                          UINT64_MAX: none */
  int least_ctas; /* thread blocks of each kernel that reduces device memory: at least so many */
  int most_ctas;  /* and at most; the least wins. Up to 4096; 0: what TUTTI_LEAST_CTAS and
                     TUTTI_CTAS say. Each rank's own affair: results do not depend on them */
} tuttiConfig_t;

#define TUTTI_CONFIG_INITIALIZER \
  { sizeof(tuttiConfig_t), 1, 0, NULL, 0, 0, 0 }

/* Collective over `ranks` ranks, as processes or as threads. Who does not come is waited for, and
 * named in the log after TUTTI_SLOW, until TUTTI_INIT_TIMEOUT (both seconds; default of the latter:
 * none) or tuttiCommAbort. All calls that make communicators set *comm at once. Blocking, they
 * return when it can be used, and *comm is NULL after an error. Not blocking, *comm answers
 * tuttiCommGetAsyncError alone until that no longer says tuttiInProgress; after an error it must be
 * destroyed. Between GroupStart and GroupEnd all of them are made concurrently by the outermost
 * GroupEnd: this is how one thread makes several ranks of one group; *comm must stay valid until
 * then. */
TUTTI_API tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int ranks, tuttiUniqueId id, int rank);
TUTTI_API tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int ranks, tuttiUniqueId id,
                                                int rank, const tuttiConfig_t* config);
/* The same for large groups: the ranks are spread over the servers of several ids, of which all
 * ranks give the same in the same order, at least one and at most one for each rank. Consecutive
 * ranks share an id; make ids in different processes, so that no process has to serve all. */
TUTTI_API tuttiResult_t tuttiCommInitRankScalable(tuttiComm_t* comm, int ranks, int rank,
                                                  int id_count, const tuttiUniqueId* ids,
                                                  const tuttiConfig_t* config);
/* The same without an id from the caller, for processes that a launcher started (torchrun, mpirun,
 * srun, or any loop that sets RANK, WORLD_SIZE and MASTER_ADDR): one rank per process, rank and
 * ranks as the launcher says. All ranks make their launched communicators in the same order.
 *
 * The ranks meet by the first of these that applies: TUTTI_ID; the launcher's exchange (PMIx,
 * PMI2); a file of this user, if the launcher's variables say that all are on one host; MASTER_ADDR
 * at TUTTI_PORT (default: MASTER_PORT + 1). Where a place is all they have in common,
 * TUTTI_KEY_FILE holds their key; without one they are refused (tuttiInvalidUsage says what to set)
 * unless TUTTI_INSECURE is 1.
 *
 * Jobs of one user on one host are kept apart where their launcher gives them names (torchrun, Open
 * MPI, Slurm), or each has its ranks started by a process of its own. Ranks of one job that several
 * processes have started (by hand, in two terminals) need one TUTTI_JOB. After an error a rank may
 * call it again: it meets the others if it failed on all ranks, and is told if it did not. */
TUTTI_API tuttiResult_t tuttiCommInitLaunched(tuttiComm_t* comm, const tuttiConfig_t* config);
/* The calling thread makes all ranks of a group in this process: comms[0 .. ranks), all or none. It
 * then drives them in groups, or from one thread each. Where the process uses CUDA, rank i has the
 * device devices[i], or with NULL device i; with NULL and more ranks than devices, all have what is
 * current in the calling thread, which this does not change. tuttiInvalidArgument: an entry is
 * negative, or there is no such device. */
TUTTI_API tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int ranks, const int* devices);

/* ---- Communicators made from others ----
 * Each makes a new communicator; the old one stays as it was and either may be ended first. The
 * ranks meet again by sockets of their own, authenticated by the group's key, so that links that
 * died do not matter. A rank that calls waits for its own queued operations before; the old
 * communicator takes no other call meanwhile. A NULL configuration: the old communicator's. Split
 * and shrink block if the old one does, grow if the new one does. They wait as tuttiCommInitRank
 * does; an error names who did not come or who wants something else. */

#define TUTTI_SPLIT_NOCOLOR -1
/* All ranks call it; those with one colour (>= 0) form a communicator, ordered by key and then by
 * rank. With TUTTI_SPLIT_NOCOLOR *made is NULL; not blocking, ask `comm` when it is over. */
TUTTI_API tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t* made,
                                       const tuttiConfig_t* config);

#define TUTTI_SHRINK_DEFAULT 0
#define TUTTI_SHRINK_ABORT 1 /* what is in flight ends with an error; `comm` is then failed */
/* The other ranks call it, with the same list, and keep their order; excluded ones may be dead. */
TUTTI_API tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* excluded, int excluded_count,
                                        tuttiComm_t* made, const tuttiConfig_t* config, int flags);

/* For tuttiCommGrow; the process must live until it is over. As secret as any unique id. */
TUTTI_API tuttiResult_t tuttiCommGetUniqueId(tuttiComm_t comm, tuttiUniqueId* id);
/* Adds ranks, up to `ranks` in all. All ranks of `comm` call it with rank -1 and keep their
 * numbers; one of them at least passes the id, the others may pass NULL. New ranks pass comm NULL,
 * the id, and a rank behind the old ones. */
TUTTI_API tuttiResult_t tuttiCommGrow(tuttiComm_t comm, int ranks, const tuttiUniqueId* id,
                                      int rank, tuttiComm_t* made, const tuttiConfig_t* config);

/* ---- The end of communicators ---- */

#define TUTTI_REVOKE_DEFAULT 0
/* Ends what is in flight, here and, with tuttiRemoteError, on the other ranks. Afterwards the
 * communicator can only be split, shrunk, destroyed or aborted; every rank should revoke it. */
TUTTI_API tuttiResult_t tuttiCommRevoke(tuttiComm_t comm, int flags);
/* Waits for the rank's own queued operations; an error is why the communicator failed (one that
 * only an operation had is its stream's). Afterwards it can only be destroyed or aborted. */
TUTTI_API tuttiResult_t tuttiCommFinalize(tuttiComm_t comm);
/* Waits for the rank's own queued operations, then frees; waits up to 10 s for those in its windows
 * (who stays inside is an error, of an abort, too), and up to 10 s for the other ranks, as long as
 * all are well and none waits for this one elsewhere: ranks may destroy in different orders. Of the
 * ranks of one group in one process only the last waits. A second destroy is tuttiInvalidUsage. */
TUTTI_API tuttiResult_t tuttiCommDestroy(tuttiComm_t comm);
/* Frees without waiting for peers; operations in flight return tuttiRemoteError on every rank. A
 * call that another thread is in returns before anything is freed; one that comes later, the end of
 * a group included, is tuttiInvalidUsage. A handle stays good for that as long as the process
 * lives; it is not looked at whether a pointer was ever a handle. While another thread destroys
 * the communicator, this is tuttiInvalidUsage, too, and makes that destroy an abort, also where it
 * waits for the other ranks. So is an end in a signal handler inside a call of this thread. */
TUTTI_API tuttiResult_t tuttiCommAbort(tuttiComm_t comm);
TUTTI_API tuttiResult_t tuttiCommCount(tuttiComm_t comm, int* ranks);
TUTTI_API tuttiResult_t tuttiCommUserRank(tuttiComm_t comm, int* rank);
/* *error is tuttiSuccess; tuttiInProgress while the communicator is being made or ended; or why
 * it could not be made, is failed, or did not end well; then tuttiGetLastError() says which and
 * why. Other calls on a communicator in progress are refused with tuttiInvalidUsage, but
 * destroy, which ends it when it is made, and abort, now. */
TUTTI_API tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* error);
TUTTI_API const char* tuttiGetErrorString(tuttiResult_t result);
/* The last message of this communicator (NULL: of this thread). Valid until this thread asks again;
 * with NULL only until its next call that fails or finds an error. */
TUTTI_API const char* tuttiGetLastError(tuttiComm_t comm);

/* ---- Settings: the environment variables, as this process took them ---- */

typedef struct {
  const char* name;      /* "TUTTI_LOG" */
  const char* nccl_name; /* "NCCL_DEBUG"; "": NCCL has none */
  const char* unit;      /* of a number; "": none */
  const char* accepts;
  const char* effect;
  const char* origin; /* the variable the value came from, "NAME in SOURCE" for a default that
                         was set; "": it is the library's own */
  const char* value;  /* secrets are not shown. Valid until this thread asks again */
} tuttiSetting_t;

/* The setting of this index, from 0; tuttiInvalidArgument beyond the last. */
TUTTI_API tuttiResult_t tuttiGetSetting(int index, tuttiSetting_t* setting);
/* A value for a variable that the environment does not have: for programs with configuration files.
 * `name` is Tutti's or NCCL's, `source` says where the value is from; the first of one name counts.
 * tuttiInvalidArgument where there is no such setting; tuttiInvalidUsage once the process has read
 * its settings, which any other call may do. */
TUTTI_API tuttiResult_t tuttiSetDefault(const char* name, const char* value, const char* source);

/* ---- Options: what a call would otherwise choose by itself ---- */

typedef struct {
  size_t size;           /* sizeof(tuttiOptions_t) */
  const char* algorithm; /* NULL: by TUTTI_ALGORITHM or NCCL_ALGO, else chosen. A name of
                            docs/algorithms.md: "ring", "ring:2" (lanes) */
  int deterministic;     /* 1: only schedules that reduce in the canonical order. The bits still
                            depend on whether threads flush subnormal numbers (MXCSR, FPCR). 0 does
                            not undo TUTTI_DETERMINISTIC */
  int priority;          /* HOST streams and groups advance a lower one when no higher one can */
  uint64_t timeout_ns;   /* a call that takes longer fails with tuttiTimeout. 0: the communicator's
                            (tuttiConfig_t), else TUTTI_TIMEOUT (seconds); UINT64_MAX: none */
  int engine;            /* a tuttiEngine_t. AUTO: the communicator's. Any other is what a call on a
                            stream of a device runs by, or it is tuttiUnsupported with the reason */
  int reserved;          /* 0 */
} tuttiOptions_t;

#define TUTTI_OPTIONS_INITIALIZER \
  { sizeof(tuttiOptions_t), NULL, 0, 0, 0, tuttiEngineAuto, 0 }

/* For the calls on `comm` that follow; waits for what is queued. Every rank sets the same
 * algorithm, determinism and engine. Collectives that have no algorithm of this name are then
 * refused, barriers too. NULL: the defaults. */
TUTTI_API tuttiResult_t tuttiCommSetOptions(tuttiComm_t comm, const tuttiOptions_t* options);

/* Writes what a call would run, the predicted cost, and why every other candidate lost, as text
 * with a final NUL; tuttiInvalidArgument with *needed set if `bytes` is too small. For
 * "all_to_all_v" and its like `count` is the longest share. Waits for what is queued. */
TUTTI_API tuttiResult_t tuttiExplain(tuttiComm_t comm, const char* collective, size_t count,
                                     tuttiDataType_t type, char* text, size_t bytes,
                                     size_t* needed);

/* ---- Flight recorder ---- */

/* Appends the last calls of every communicator of this process to the file, as text; NULL: to the
 * error output. `tutti trace dump` does the same from outside. Threads: any, at any time. */
TUTTI_API tuttiResult_t tuttiTraceDump(const char* path);

/* ---- Memory ---- */

/* Memory that all ranks of this host can map: zeroed whole pages, the caller's until
 * tuttiMemFree(). 0 bytes: tuttiInvalidArgument. Ordinary memory works everywhere too. */
TUTTI_API tuttiResult_t tuttiMemAlloc(void** memory, size_t bytes);
/* Of tuttiMemAllocFor() (streams.h), too. NULL is allowed. What is still registered, or part of a
 * window, stays until that ends. */
TUTTI_API tuttiResult_t tuttiMemFree(void* memory);
/* Collective: every rank registers one range of the same size (at most 1 TiB) that begins where
 * tuttiMemAlloc's memory begins. Collectives whose buffers all lie in registered ranges then run
 * without staging, from 8 KiB of output on (of all ranks' parts, where it holds them); those with a
 * count for each rank, sends and receives never do. Every rank must pass registered buffers, or
 * none, to one call. Deregistered memory is not used by calls that begin later, and what this rank
 * has mapped of the others' goes at once, or when a running call that uses registered memory ends;
 * of its own, what the others have mapped stays until they deregister it too. Registering waits for
 * what is queued. In a group it runs at its end, before the operations: *handle must stay valid
 * until then.
 * Device memory: all ranks register device memory, or none. It may begin anywhere; calls on streams
 * of the device then read it without staging, if it lies at the same place of the registration on
 * all ranks (docs/devices.md says which do). Where it cannot be shared it is no error. */
TUTTI_API tuttiResult_t tuttiCommRegister(tuttiComm_t comm, void* memory, size_t bytes,
                                          void** handle);
TUTTI_API tuttiResult_t tuttiCommDeregister(tuttiComm_t comm, void* handle);

/* ---- Collectives ----
 * In place: all_reduce, reduce, broadcast, all_to_all: send == recv. all_gather, gather: send ==
 * recv + rank * count. reduce_scatter, scatter: recv == send + rank * count. Other overlaps are
 * errors. A buffer that only the root has is not looked at on other ranks and may be NULL there.
 * count 0 is legal. */

TUTTI_API tuttiResult_t tuttiAllReduce(const void* send, void* recv, size_t count,
                                       tuttiDataType_t type, tuttiRedOp_t op, tuttiComm_t comm,
                                       tuttiStream_t stream);
/* `count` elements from each rank; recv holds ranks * count. */
TUTTI_API tuttiResult_t tuttiAllGather(const void* send, void* recv, size_t count,
                                       tuttiDataType_t type, tuttiComm_t comm,
                                       tuttiStream_t stream);
/* `count` elements to each rank; send holds ranks * count. */
TUTTI_API tuttiResult_t tuttiReduceScatter(const void* send, void* recv, size_t count,
                                           tuttiDataType_t type, tuttiRedOp_t op, tuttiComm_t comm,
                                           tuttiStream_t stream);
/* `send`: on the root only. */
TUTTI_API tuttiResult_t tuttiBroadcast(const void* send, void* recv, size_t count,
                                       tuttiDataType_t type, int root, tuttiComm_t comm,
                                       tuttiStream_t stream);
/* `recv`: on the root only. */
TUTTI_API tuttiResult_t tuttiReduce(const void* send, void* recv, size_t count,
                                    tuttiDataType_t type, tuttiRedOp_t op, int root,
                                    tuttiComm_t comm, tuttiStream_t stream);
/* `count` elements from each rank; recv, on the root only, holds ranks * count. */
TUTTI_API tuttiResult_t tuttiGather(const void* send, void* recv, size_t count,
                                    tuttiDataType_t type, int root, tuttiComm_t comm,
                                    tuttiStream_t stream);
/* `count` elements to each rank; send, on the root only, holds ranks * count. */
TUTTI_API tuttiResult_t tuttiScatter(const void* send, void* recv, size_t count,
                                     tuttiDataType_t type, int root, tuttiComm_t comm,
                                     tuttiStream_t stream);
/* `count` elements between each pair of ranks; both buffers hold ranks * count. */
TUTTI_API tuttiResult_t tuttiAllToAll(const void* send, void* recv, size_t count,
                                      tuttiDataType_t type, tuttiComm_t comm, tuttiStream_t stream);
TUTTI_API tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream);

/* ---- Collectives with a count for each rank ----
 * Counts and offsets are elements, one entry a rank; the vectors are read during the call and not
 * needed after it returns, whatever the stream. `offsets` say where in the buffer a rank's block
 * begins; NULL: packed in rank order. They are each rank's own affair. Counts may be 0, also all;
 * a buffer without elements may be NULL. Written blocks must not overlap. Counts on which ranks
 * disagree are an error, as any argument is that must be equal. These calls pass data through
 * staging memory, also between threads and with registered buffers; what is staged at a time
 * follows from the longest block, so blocks of similar size run best. */

/* counts[r] elements from rank r; every rank passes the same counts, and send_count equal to its
 * own entry. In place: send is where this rank's block of recv begins. */
TUTTI_API tuttiResult_t tuttiAllGatherV(const void* send, size_t send_count, void* recv,
                                        const size_t* counts, const size_t* offsets,
                                        tuttiDataType_t type, tuttiComm_t comm,
                                        tuttiStream_t stream);
/* counts[r] elements to rank r; every rank passes the same counts; send holds their sum, packed.
 * In place: recv is where this rank's block of send begins. */
TUTTI_API tuttiResult_t tuttiReduceScatterV(const void* send, void* recv, const size_t* counts,
                                            tuttiDataType_t type, tuttiRedOp_t op, tuttiComm_t comm,
                                            tuttiStream_t stream);
/* send_counts[r] elements to rank r, recv_counts[r] from it: what rank a sends to b must be what b
 * expects of a, or both fail with tuttiInvalidUsage. A rank knows its own counts only, so a small
 * exchange of counts goes first. In place: send == recv, equal counts and offsets both ways. */
TUTTI_API tuttiResult_t tuttiAllToAllV(const void* send, const size_t* send_counts,
                                       const size_t* send_offsets, void* recv,
                                       const size_t* recv_counts, const size_t* recv_offsets,
                                       tuttiDataType_t type, tuttiComm_t comm,
                                       tuttiStream_t stream);

/* ---- Scaled sums ----
 * The sum of what each rank brings, multiplied first by a scalar of that rank's own. Each product
 * is rounded to the type before it is added, integers wrap. Every rank passes such an operation to
 * the call; the scalars may differ. */

typedef enum {
  tuttiScalarDevice = 0,       /* `scalar` is read each time a call begins to run */
  tuttiScalarHostImmediate = 1 /* `scalar` is read now */
} tuttiScalarResidence_t;

/* Local. The operation belongs to `comm` and serves calls of `type`. A call keeps what it needs, so
 * the operation may be destroyed as soon as the call has returned, in a group or on a HOST stream
 * too; memory named by tuttiScalarDevice stays until the call has completed. */
TUTTI_API tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, void* scalar,
                                                  tuttiDataType_t type,
                                                  tuttiScalarResidence_t residence,
                                                  tuttiComm_t comm);
TUTTI_API tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm);

/* ---- Point to point, groups ----
 * A send pairs with its peer's next receive: as many bytes, whatever types both sides give. A send
 * may return before that receive is called, if its bytes have room on the way; it need not. Sizes
 * that differ fail the communicator: tuttiInvalidUsage on the receiver. A send to oneself needs an
 * equal receive in the same group, else it is tuttiInvalidUsage, and no operation of the group
 * runs; outside of groups it always is. Calls between
 * GroupStart and the matching outermost GroupEnd progress together; GroupEnd reports the first
 * error. Groups belong to a thread and nest. A group in which a call was refused runs nothing; its
 * outermost GroupEnd returns the first refusal.
 * Communicators are made, then memory is registered, then the operations run. One thread may so
 * make several ranks of a group, register for them and drive them. */

TUTTI_API tuttiResult_t tuttiSend(const void* send, size_t count, tuttiDataType_t type, int peer,
                                  tuttiComm_t comm, tuttiStream_t stream);
TUTTI_API tuttiResult_t tuttiRecv(void* recv, size_t count, tuttiDataType_t type, int peer,
                                  tuttiComm_t comm, tuttiStream_t stream);
TUTTI_API tuttiResult_t tuttiGroupStart(void);
TUTTI_API tuttiResult_t tuttiGroupEnd(void);
/* Ends the group as GroupEnd does, but runs nothing: *nanoseconds is what its operations should
 * take by the costs that algorithms declare, without the time that other ranks are late. It waits
 * for what HOST streams hold of their communicators. Requests of the group end with
 * tuttiInvalidUsage. A group that makes communicators or registers memory cannot be simulated. */
TUTTI_API tuttiResult_t tuttiGroupSimulateEnd(uint64_t* nanoseconds);
/* Closes this thread's groups; nothing in them runs. For a program that fails before their end. */
TUTTI_API tuttiResult_t tuttiGroupDiscard(void);

#ifdef __cplusplus
}
#endif

#include "requests.h" /* calls as values */
#include "windows.h"  /* one-sided access */

#endif /* TUTTI_H_ */
