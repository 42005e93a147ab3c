/* Tutti: collective communication over any mix of links. The C API.
 *
 * The calls have the shapes and the semantics of NCCL's calls under a prefix of their own; some of
 * them NCCL lacks. A communicator joins ranks; every rank calls the same collectives in the same
 * order with matching arguments. A group is what a thread calls between tuttiGroupStart() and the
 * tuttiGroupEnd() that matches it.
 *
 * This file has the types, communicators, settings and memory. It includes the other parts of the
 * C API: streams.h, collectives.h (with send, receive and groups), requests.h and windows.h.
 *
 * Units:    counts are elements, sizes are bytes and times are nanoseconds, unless a name says
 *           otherwise. Ranks count from 0.
 * Owns:     the caller owns every buffer, keeps it valid and does not write to it until the call
 *           has completed. A call on a BLOCKING stream has completed when it returns, or inside a
 *           group when the outermost tuttiGroupEnd() returns; a call on a HOST stream has completed
 *           after tuttiStreamSynchronize(); streams.h says when one on a device's stream has.
 * Threads:  different communicators may be used from different threads at the same time, but one
 *           communicator by one thread at a time only. As exceptions, any thread may at any time
 *           abort, destroy or revoke a communicator, deregister memory from it, and ask for its
 *           error, its size and its rank.
 * Ordering: the operations of a communicator run in the order of their calls, whatever streams they
 *           are on. The operations of a group run in this order: collectives, in the order of their
 *           calls; all sends and receives together; puts, gets and signals; waits for signals. So
 *           no call of a group may need the result of another call of the same group.
 * Errors:   every function but tuttiGetErrorString() and tuttiGetLastError() returns a
 *           tuttiResult_t. After an error, tuttiGetLastError() returns a sentence that names the
 *           rank, the host and the operation, and says what to do. A NULL pointer where a call
 *           would write its answer is tuttiInvalidArgument. A call that was refused before it ran
 *           leaves the communicator usable. An error that is found while an operation runs is
 *           final: every later operation on the communicator returns it, and so does
 *           tuttiCommGetAsyncError(), which thereby tells the two cases apart. Such an error is
 *           tuttiInvalidUsage (the calls of the ranks differ), tuttiRemoteError, tuttiTimeout,
 *           tuttiSystemError, tuttiUnsupported or tuttiInternalError. One-sided access has milder
 *           rules, which windows.h gives. A call for which memory runs out returns
 *           tuttiSystemError; the error is final if the operation had begun. A child of fork()
 *           cannot use its parent's handles: they are tuttiInvalidUsage there.
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

/* ---- Results, types, operations: where NCCL has them too, they have NCCL's numbers ---- */

typedef enum {
  tuttiSuccess = 0,
  tuttiUnhandledCudaError = 1,
  tuttiSystemError = 2,     /* the operating system refused something */
  tuttiInternalError = 3,   /* a defect in Tutti */
  tuttiInvalidArgument = 4, /* an argument has a value that is never valid */
  tuttiInvalidUsage = 5,    /* the call is not allowed here and now, or ranks' calls differ */
  tuttiRemoteError = 6,     /* another rank failed or is gone */
  tuttiInProgress = 7,      /* not finished yet; this is no failure */
  tuttiTimeout = 8,
  tuttiUnsupported = 9 /* this build or this machine cannot do it */
} tuttiResult_t;

/* Types of elements. tuttiBool is C's bool, a byte of 0 or 1. Of bools a sum or a maximum is 1 if
 * any of them is 1, and a product or a minimum is 1 if all of them are 1. Bools have no average and
 * no scaled sum. */
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
  tuttiBool = 14
} tuttiDataType_t;

/* Reductions. Floats of 16 and 8 bits are added in fp32; the sum is rounded to the type once per
 * hop, or after every addition in deterministic calls (tuttiOptions_t). tuttiAvg over n ranks
 * multiplies floats by 1/n before they are added, and divides the sum of integers by n, rounded
 * toward zero. A NaN on any rank makes the result NaN, also for tuttiMax and tuttiMin. */
typedef enum {
  tuttiSum = 0,
  tuttiProd = 1,
  tuttiMax = 2,
  tuttiMin = 3,
  tuttiAvg = 4,
  tuttiBitAnd = 5, /* the three bitwise operations take integers and bools */
  tuttiBitOr = 6,
  tuttiBitXor = 7,
  tuttiMaxRedOp = 0x7fffffff /* values in between come from tuttiRedOpCreatePreMulSum() */
} tuttiRedOp_t;

typedef struct tuttiComm* tuttiComm_t;

typedef struct {
  char internal[128];
} tuttiUniqueId;

#ifdef __cplusplus
}
#endif
#include "streams.h" /* streams, which are passed by value */
#ifdef __cplusplus
extern "C" {
#endif

/* ---- Communicators ---- */

/* Sets *version to TUTTI_VERSION of the library that runs. */
TUTTI_API tuttiResult_t tuttiGetVersion(int* version);
/* Makes the id by which the ranks of one new communicator find each other. One process calls it and
 * hands the id to the others; if TUTTI_ID is set to HOST:PORT of rank 0, each process may call it
 * itself. The process that calls it must live until the communicator is made. Where TUTTI_PORT is
 * set, a host can have one such id at a time. The id contains the secret key of the communicator:
 * pass it through a channel that you trust, and do not print it. It never expires. */
TUTTI_API tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id);
/* Makes an id without the secret key, for a channel that others can read. The key then follows from
 * the key of the job, which every process that uses the id has in TUTTI_KEY_FILE or TUTTI_KEY.
 * Without one, this call is tuttiInvalidUsage, and so are the calls that make communicators. */
TUTTI_API tuttiResult_t tuttiGetPublicId(tuttiUniqueId* id);

/* The engines that can run calls on streams of devices (docs/devices.md). All other calls run on
 * the host. */
typedef enum {
  tuttiEngineAuto = 0,   /* the library chooses */
  tuttiEngineHost = 1,   /* the host's processors, through host memory */
  tuttiEngineCopy = 2,   /* copy engines, and streams that wait for each other: no kernels */
  tuttiEngineKernel = 3, /* as tuttiEngineCopy, and kernels for reductions */
  tuttiEngineNccl = 4,   /* NCCL itself within hosts; Tutti's own engines run what it does not */
  tuttiEngineNoNccl = 5  /* as tuttiEngineAuto, but never NCCL, whatever was measured */
} tuttiEngine_t;

/* How a communicator is made. The structure of another version of Tutti may be shorter or longer;
 * bytes that this version does not know must be zero. Where a function takes a pointer to it, NULL
 * means the defaults or, for a communicator that is made from another one, that one's
 * configuration. */
typedef struct {
  size_t size;         /* sizeof(tuttiConfig_t) */
  int blocking;        /* 1 by default. With 0 the calls that make or end communicators return
                          tuttiInProgress at once, and the caller polls tuttiCommGetAsyncError().
                          It does not change collectives: their stream says whether they block */
  int engine;          /* a tuttiEngine_t, equal on all ranks: the engine that calls on streams of
                          devices use where they can. AUTO: the engine that TUTTI_ENGINE names */
  const char* name;    /* for messages and traces; up to 128 bytes are copied. NULL: no name */
  uint64_t timeout_ns; /* the time after which a call fails with tuttiTimeout, unless its options
                          say otherwise. 0: TUTTI_TIMEOUT (in seconds); UINT64_MAX: none */
  int least_ctas;      /* a kernel that reduces device memory has at least this many thread blocks:
                          0 to 4096, where 0 stands for TUTTI_LEAST_CTAS. Ranks may have different
                          numbers, on which results do not depend */
  int most_ctas;       /* the same for the most thread blocks, where 0 stands for TUTTI_CTAS. If it
                          is less than `least_ctas`, that one holds */
  const char* wire;    /* which levels encode their messages, equal on all ranks: as tuttiOptions_t
                          has it. NULL: as TUTTI_WIRE says */
} tuttiConfig_t;

#define TUTTI_CONFIG_INITIALIZER \
  { sizeof(tuttiConfig_t), 1, 0, NULL, 0, 0, 0, NULL }

/* Makes a communicator of `ranks` ranks, which are processes or threads; `rank` is this one's
 * number. All ranks call it with the same id (collective).
 * Waiting:  it waits for ranks that have not come yet, until TUTTI_INIT_TIMEOUT (seconds; by
 *           default there is no limit) or tuttiCommAbort(). After TUTTI_SLOW seconds the log names
 *           the missing ranks.
 * Blocking: *comm is set at once. When the call returns, the communicator can be used, or *comm is
 *           NULL after an error. Polling: without blocking (tuttiConfig_t) *comm is set too, and
 *           the call returns tuttiInProgress. Until tuttiCommGetAsyncError() no longer answers
 *           tuttiInProgress, *comm may otherwise only be destroyed or aborted. After an error it
 *           must be destroyed.
 * Groups:   the outermost tuttiGroupEnd() makes all communicators of a group concurrently. So one
 *           thread can make several ranks of one communicator. `comm` must point to valid memory
 *           until then. All calls that make communicators follow these rules. */
TUTTI_API tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int ranks, tuttiUniqueId id, int rank);
/* The same with a configuration. */
TUTTI_API tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int ranks, tuttiUniqueId id,
                                                int rank, const tuttiConfig_t* config);
/* The same for many ranks, which are spread over `id_count` ids so that no process has to serve all
 * of them. Consecutive ranks share an id; make the ids in different processes. All ranks pass the
 * same ids in the same order: at least 1, and at most as many as there are ranks. */
TUTTI_API tuttiResult_t tuttiCommInitRankScalable(tuttiComm_t* comm, int ranks, int rank,
                                                  int id_count, const tuttiUniqueId* ids,
                                                  const tuttiConfig_t* config);
/* The same without an id, for processes that a launcher started: torchrun, mpirun, srun, or any
 * loop that sets RANK, WORLD_SIZE and MASTER_ADDR. Each process is one rank; the launcher says
 * which, and how many there are. All ranks make their launched communicators in the same order.
 *
 * The ranks meet by the first of these that there is:
 *   1. TUTTI_ID;
 *   2. the launcher's own exchange (PMIx, PMI2);
 *   3. a file of this user, if the launcher's variables say that all ranks are on one host;
 *   4. MASTER_ADDR at port TUTTI_PORT (by default MASTER_PORT + 1).
 * A place alone, as in 1 and 4, gives the ranks no common secret. Then they need a key in
 * TUTTI_KEY_FILE, or TUTTI_INSECURE set to 1; otherwise the call is tuttiInvalidUsage, with a
 * message that says what to set.
 *
 * Jobs of one user on one host are kept apart by the name that their launcher gives them (torchrun,
 * Open MPI, Slurm), else by the process that started their ranks. If several processes start the
 * ranks of one job, for example by hand in two terminals, set one TUTTI_JOB for all of them.
 * After an error a rank may call it again: it meets the others if the call failed on all ranks, and
 * gets an error if it did not. */
TUTTI_API tuttiResult_t tuttiCommInitLaunched(tuttiComm_t* comm, const tuttiConfig_t* config);
/* Makes all ranks of a communicator in the calling thread: comms[0 .. ranks) become theirs, or all
 * of them NULL. Afterwards they are driven in groups, or by a thread for each of them. Where the
 * process uses CUDA, rank i uses device devices[i], or device i if `devices` is NULL; if it is NULL
 * and there are fewer devices than ranks, all use the device that is current in the calling thread.
 * The current device is left as it is. A negative entry, or one for which there is no device, is
 * tuttiInvalidArgument. */
TUTTI_API tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int ranks, const int* devices);

/* ---- Communicators that are made from others ----
 * Each of these calls makes a new communicator. The old one stays as it was, and either of them may
 * be ended first. The ranks meet again by new sockets, which the key of the old communicator
 * protects, so that links that died do not matter.
 * Waiting: the call first waits for this rank's own queued operations, then for the other ranks as
 *          tuttiCommInitRank() does. An error names the ranks that did not come or that asked for
 *          something else. The old communicator takes no other call meanwhile. Split and shrink
 *          block if the old communicator is blocking; grow blocks if the new one is. */

#define TUTTI_SPLIT_NOCOLOR -1
/* Ranks that pass the same colour (0 or more) form a communicator, ordered by `key` and then by
 * their old rank. All ranks of `comm` call it. A rank with TUTTI_SPLIT_NOCOLOR gets *made == NULL;
 * if it does not block, tuttiCommGetAsyncError() of `comm` says when the split is over. */
TUTTI_API tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t* made,
                                       const tuttiConfig_t* config);

#define TUTTI_SHRINK_DEFAULT 0
#define TUTTI_SHRINK_ABORT 1 /* operations in flight end with an error, then `comm` has failed */
/* Makes a communicator without the excluded ranks, which may be dead. All other ranks call it with
 * the same list and keep their order. `flags` is one of the two values above. */
TUTTI_API tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* excluded, int excluded_count,
                                        tuttiComm_t* made, const tuttiConfig_t* config, int flags);

/* Makes an id for tuttiCommGrow() and for tuttiCommJoin(). This process must live until the growth,
 * or the edit, is over. The id is as secret as that of tuttiGetUniqueId(). */
TUTTI_API tuttiResult_t tuttiCommGetUniqueId(tuttiComm_t comm, tuttiUniqueId* id);
/* Makes a communicator with additional ranks, `ranks` in all. All ranks of `comm` call it with rank
 * -1 and keep their numbers; at least one of them passes the id, and the others may pass NULL. A
 * new rank passes NULL for `comm`, the id, and a rank number behind the old ones. */
TUTTI_API tuttiResult_t tuttiCommGrow(tuttiComm_t comm, int ranks, const tuttiUniqueId* id,
                                      int rank, tuttiComm_t* made, const tuttiConfig_t* config);

/* ---- Communicators that give their memory back for a while ---- */

#define TUTTI_SUSPEND_MEMORY 1
/* Gives back the device memory that the communicator has for its calls (its rings and mailboxes),
 * and pinned memory that no call of the process uses, so that a program can use it between phases
 * of its own. Until tuttiCommResume() every call that communicates, registers memory or makes a
 * communicator from this one is tuttiInvalidUsage; questions, deregistering, tuttiCommDestroy() and
 * tuttiCommAbort() are allowed. `flags` is TUTTI_SUSPEND_MEMORY.
 * Waiting: all ranks call it (collective), when all have made the same calls. It waits for these,
 *          also those on streams of devices, which their deadlines end. For graphs that were
 *          launched it waits half as long as a call may take, and at most 60 s; then it is
 *          tuttiTimeout on all ranks, and the communicator stays as it was. When it returns, all
 *          ranks of this host have given their memory back. In a group it runs when the group
 *          ends, and the group has no operations on the communicator.
 * Graphs:  those that hold calls of the communicator stay valid, since memory keeps its addresses.
 *          To launch one while it is suspended makes the device fault, as with NCCL.
 * NCCL:    where it is an engine its device memory goes, too, if the library of every rank has
 *          ncclCommSuspend() (from 2.29.7 on); else it stays. One that fails at it on some rank
 *          fails the communicator.
 * Keeps:   windows, registrations, connections.
 *          Without a ring in device memory there is nothing to give back, and it succeeds. */
TUTTI_API tuttiResult_t tuttiCommSuspend(tuttiComm_t comm, int flags);
/* Takes the memory again, at the same addresses, after which every call is allowed. All ranks call
 * it (collective). tuttiSystemError on all ranks: some rank found too little memory, which the
 * message names; the communicator stays suspended, and may be resumed later. Where NCCL fails
 * though there is room, the communicator has failed. One that is not suspended is
 * tuttiInvalidUsage. Groups: as tuttiCommSuspend(). */
TUTTI_API tuttiResult_t tuttiCommResume(tuttiComm_t comm);
/* *bytes becomes the device memory that tuttiCommSuspend() gives back on this rank, whether it has
 * or not, with that of NCCL as far as it has said how much (it takes more when calls first need
 * it); *suspended (which may be NULL) 1 if it has, else 0. */
TUTTI_API tuttiResult_t tuttiCommGetDeviceMemory(tuttiComm_t comm, size_t* bytes, int* suspended);

/* ---- The end of communicators ---- */

#define TUTTI_REVOKE_DEFAULT 0
/* Ends the operations in flight, here and on the other ranks, where they return tuttiRemoteError.
 * Afterwards the communicator can only be split, shrunk, destroyed or aborted. Every rank should
 * revoke it. `flags` is TUTTI_REVOKE_DEFAULT. */
TUTTI_API tuttiResult_t tuttiCommRevoke(tuttiComm_t comm, int flags);
/* Waits for this rank's own queued operations, and returns the error for which the communicator has
 * failed, if it has. (An error that concerned a single operation is reported by its stream.)
 * Afterwards the communicator can only be destroyed or aborted. */
TUTTI_API tuttiResult_t tuttiCommFinalize(tuttiComm_t comm);
/* Waits and then frees the communicator. It waits for this rank's own queued operations, without a
 * limit of its own; up to 10 s for ranks that are still accessing its windows (if one stays, that
 * is an error); and up to 10 s for the other ranks, while all of them are well and none of them
 * waits for this rank elsewhere, so that ranks may destroy communicators in different orders. Of
 * several ranks in one process only the last one waits for the others. A second destroy is
 * tuttiInvalidUsage. */
TUTTI_API tuttiResult_t tuttiCommDestroy(tuttiComm_t comm);
/* Frees the communicator without waiting for other ranks, except for those that are accessing its
 * windows (see tuttiCommDestroy()). Operations in flight return tuttiRemoteError on every rank.
 * A call that another thread is in returns before anything is freed; calls that come later, the end
 * of a group included, are tuttiInvalidUsage. That holds for the life of the process, since ended
 * handles stay known; but a pointer that never was a handle is not detected.
 * While another thread destroys the communicator, this call turns that destroy into an abort, also
 * where it waits for other ranks, and itself returns tuttiInvalidUsage.
 * In a signal handler that interrupted a call of the same thread, abort and destroy are
 * tuttiInvalidUsage. */
TUTTI_API tuttiResult_t tuttiCommAbort(tuttiComm_t comm);
/* Sets *ranks to the number of ranks. */
TUTTI_API tuttiResult_t tuttiCommCount(tuttiComm_t comm, int* ranks);
/* Sets *rank to this rank's number. */
TUTTI_API tuttiResult_t tuttiCommUserRank(tuttiComm_t comm, int* rank);
/* Sets *error to the state of the communicator: tuttiInProgress while it is being made or ended;
 * the error for which it could not be made, has failed or did not end well, of which
 * tuttiGetLastError() then has the sentence; tuttiSuccess otherwise. While it is tuttiInProgress
 * all other calls on it are tuttiInvalidUsage, but for tuttiCommDestroy(), which ends it as soon as
 * it is made, and tuttiCommAbort(), which ends it now. */
TUTTI_API tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* error);
/* Returns a constant text for a result; it never fails. */
TUTTI_API const char* tuttiGetErrorString(tuttiResult_t result);
/* Returns the last message of this communicator, or of this thread if `comm` is NULL. The text is
 * valid until this thread asks again; with NULL only until this thread's next call that fails or
 * finds an error. */
TUTTI_API const char* tuttiGetLastError(tuttiComm_t comm);

/* ---- Settings: the environment variables, as this process has read them ---- */

typedef struct {
  const char* name;      /* for example "TUTTI_LOG" */
  const char* nccl_name; /* NCCL's variable that sets it too, for example "NCCL_DEBUG"; or "" */
  const char* unit;      /* the unit of a number; "" if it has none */
  const char* accepts;   /* which values it takes, in words */
  const char* effect;    /* its effect, in words */
  const char* origin;    /* the variable that the value came from; "NAME in SOURCE" if it came from
                            tuttiSetDefault(); "" if it is the library's own default */
  const char* value;     /* as text; secrets are not shown. Valid until this thread asks again */
} tuttiSetting_t;

/* Describes the setting of this index, which counts from 0; an index beyond the last setting is
 * tuttiInvalidArgument. */
TUTTI_API tuttiResult_t tuttiGetSetting(int index, tuttiSetting_t* setting);
/* Gives a setting a value, unless the environment has its variable: for programs that read
 * configuration files. `name` is Tutti's or NCCL's name of it, and `source` is a text for messages
 * that says where the value is from. Of several calls for one name the first counts. An unknown
 * name is tuttiInvalidArgument. The call is tuttiInvalidUsage once the process has read its
 * settings, which any other call may do. */
TUTTI_API tuttiResult_t tuttiSetDefault(const char* name, const char* value, const char* source);

/* ---- Options of calls ---- */

typedef struct {
  size_t size;           /* sizeof(tuttiOptions_t) */
  const char* algorithm; /* a name of docs/algorithms.md: "ring", or "ring:2" for two lanes. NULL:
                            that of TUTTI_ALGORITHM or NCCL_ALGO, else the library chooses */
  int deterministic;     /* 1: only schedules that reduce in the canonical order, so that equal
                            inputs give equal bits. (These still depend on whether threads flush
                            subnormal numbers: MXCSR, FPCR.) 0 does not undo TUTTI_DETERMINISTIC */
  int priority;          /* on HOST streams and in groups, a call of lower priority advances only
                            when no call of higher priority can: that one begins after at most
                            256 KiB, or one slice, of the other. Above 0, also where it is the
                            communicator's: messages to other hosts go before those of calls with 0
                            and less, after at most one frame of 256 KiB */
  uint64_t timeout_ns;   /* a call that takes longer fails with tuttiTimeout. 0: as tuttiConfig_t or
                            else TUTTI_TIMEOUT (in seconds) says; UINT64_MAX: no deadline */
  int engine;            /* a tuttiEngine_t. AUTO: the communicator's. With any other, a call on a
                            device's stream runs by that engine, or is tuttiUnsupported with the
                            reason */
  int most_ctas;         /* the most thread blocks of this call's kernels on a device, up to 4096
                            (also of one that waits, which has at most 8). 0: the communicator's.
                            Results do not depend on it, so ranks may differ */
  const char* wire; /* which levels encode their messages (docs/slow_links.md): levels and codecs
                       (codecs.h) as in "network:int8_block,region:e3m0". Sums and averages, and
                       what is only moved, of float, half and bfloat16 are then rounded, to
                       equal bits on all ranks, where that is predicted to be faster;
                       "always,..." leaves no choice. "": exact. NULL: the communicator's */
  int least_ctas;   /* the least, of kernels that reduce; not above most_ctas if both are given */
  int reserved;     /* 0 */
} tuttiOptions_t;

#define TUTTI_OPTIONS_INITIALIZER \
  { sizeof(tuttiOptions_t), NULL, 0, 0, 0, tuttiEngineAuto, 0, NULL, 0, 0 }

/* Sets the options of all later calls on `comm`; NULL sets the defaults. It first waits for queued
 * operations. Every rank sets the same algorithm, determinism, engine and wire. A collective for
 * which there is no algorithm of the given name is then refused, barriers too. */
TUTTI_API tuttiResult_t tuttiCommSetOptions(tuttiComm_t comm, const tuttiOptions_t* options);

/* Writes which algorithm a call would run, its predicted cost, and why each other candidate lost,
 * as a text that ends with a NUL. `collective` is a name like "all_reduce", "all_to_all_v", "send",
 * "put", "get" or "signal"; a call of two ranks is one with the next rank. `count` is the count of
 * the call (of put and get: of elements), or the longest share where each rank has a count of its
 * own. *needed becomes the size of the text in bytes; if `bytes` is less, the call is
 * tuttiInvalidArgument. It waits for queued operations. */
TUTTI_API tuttiResult_t tuttiExplain(tuttiComm_t comm, const char* collective, size_t count,
                                     tuttiDataType_t type, char* text, size_t bytes,
                                     size_t* needed);

/* Appends the last calls of every communicator of this process to the file `path` as text, or
 * writes them to the error output if it is NULL. `tutti trace dump` does the same from another
 * process.
 * Threads: any, at any time. */
TUTTI_API tuttiResult_t tuttiTraceDump(const char* path);

/* ---- Memory ---- */

/* Allocates memory that all ranks of this host can map: whole pages, filled with zeros. It is the
 * caller's until tuttiMemFree(). Calls take ordinary memory as well, which they copy more often.
 * 0 bytes are tuttiInvalidArgument. */
TUTTI_API tuttiResult_t tuttiMemAlloc(void** memory, size_t bytes);
/* Frees memory of tuttiMemAlloc() or tuttiMemAllocFor() (streams.h). NULL is allowed. Memory that
 * is still registered, or part of a window, exists until that ends. */
TUTTI_API tuttiResult_t tuttiMemFree(void* memory);
/* Registers memory, so that collectives whose buffers all lie in registered ranges run without
 * staging copies, from 8 KiB of output on (counted over all ranks' parts where the output holds
 * them). Collectives with a count for each rank, sends and receives always use staging. All ranks
 * call it (collective), and each registers one range of the same size (at most 1 TiB), which begins
 * where memory of tuttiMemAlloc() begins. To one call every rank must pass registered buffers, or
 * none may. *handle is valid until tuttiCommDeregister() or the communicator's end.
 * Waiting: it waits for queued operations. In a group it runs when the group ends, before the
 *          operations; `handle` must point to valid memory until then.
 * Devices: all ranks register device memory, or none does. It may begin anywhere. Calls on streams
 *          of the device then read it without staging, if it lies at the same place of the
 *          registration on all ranks (docs/devices.md says which calls do). Where it cannot be
 *          shared with another rank, calls use staging, and that is no error. */
TUTTI_API tuttiResult_t tuttiCommRegister(tuttiComm_t comm, void* memory, size_t bytes,
                                          void** handle);
/* Ends this rank's part of the registration that has this handle. Calls that begin later do not use
 * it. This rank unmaps the other ranks' memory at once, or when a running call that uses registered
 * memory ends; other ranks keep this rank's memory mapped until they deregister too. */
TUTTI_API tuttiResult_t tuttiCommDeregister(tuttiComm_t comm, void* handle);

#ifdef __cplusplus
}
#endif

#include "collectives.h" /* collectives, send, receive, groups */
#include "edits.h"       /* members that change in place */
#include "requests.h"    /* calls as values, and requests */
#include "windows.h"     /* one-sided access */

#endif /* TUTTI_H_ */
