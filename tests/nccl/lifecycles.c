/* Makes and ends communicators in every way: lifecycles RANKS. */
#include <pthread.h>

#include "tests/nccl/ranks.h"

static void check_sum(ncclComm_t comm, int rank) {
  int ranks = 0, mine = 1, sum = 0;
  ok(ncclCommCount(comm, &ranks), "CommCount", rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", rank);
  is(sum == ranks, "AllReduce", rank);
}

static void wait_for(ncclComm_t comm, int rank) {
  ncclResult_t error = ncclInProgress;
  while (error == ncclInProgress) ok(ncclCommGetAsyncError(comm, &error), "GetAsyncError", rank);
  ok(error, "the error of a communicator in progress", rank);
}

/* `comm` is read after the call that may have made it. */
static void done_or_in_progress(ncclResult_t result, const ncclComm_t* comm, const char* what,
                                int rank) {
  if (result != ncclInProgress) ok(result, what, rank);
  wait_for(*comm, rank);
}

/* As XLA makes and splits its communicators. */
static void check_nonblocking(Member m) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL, half = NULL;
  config.blocking = 0;
  config.maxCTAs = 32;
  config.commName = "world";
  done_or_in_progress(ncclCommInitRankConfig(&comm, m.ranks, take_id(m, 1), m.rank, &config), &comm,
                      "CommInitRankConfig", m.rank);
  check_sum(comm, m.rank);
  done_or_in_progress(ncclCommSplit(comm, m.rank % 2, 0, &half, NULL), &half, "CommSplit", m.rank);
  wait_for(comm, m.rank);
  check_sum(half, m.rank);
  done_or_in_progress(ncclCommFinalize(half), &half, "CommFinalize", m.rank);
  ok(ncclCommDestroy(half), "CommDestroy", m.rank);
  /* Without a finalize before it, and while it is in progress. */
  half = NULL;
  done_or_in_progress(ncclCommSplit(comm, m.rank % 2, 0, &half, NULL), &half, "CommSplit", m.rank);
  ok(ncclCommDestroy(half), "CommDestroy", m.rank);
  half = NULL;
  const ncclResult_t begun = ncclCommSplit(comm, m.rank % 2, 0, &half, NULL);
  is(begun == ncclSuccess || begun == ncclInProgress, "CommSplit", m.rank);
  ok(ncclCommDestroy(half), "CommDestroy", m.rank);
  wait_for(comm, m.rank);
  /* A child that will block is made as its parent says. */
  half = NULL;
  config.blocking = 1;
  done_or_in_progress(ncclCommSplit(comm, m.rank % 2, 0, &half, &config), &half, "CommSplit",
                      m.rank);
  check_sum(half, m.rank);
  ok(ncclCommDestroy(half), "CommDestroy", m.rank);
  wait_for(comm, m.rank);
  meet(m);
  ok(ncclCommAbort(comm), "CommAbort", m.rank);
}

typedef struct {
  ncclComm_t comm;
  ncclComm_t made;
  int rank;
  int done;
} Family;

static void* make_and_end_child(void* argument) {
  Family* family = (Family*)argument;
  ok(ncclCommSplit(family->comm, 0, family->rank, &family->made, NULL), "CommSplit", family->rank);
  ok(ncclCommDestroy(family->made), "CommDestroy", family->rank);
  __atomic_store_n(&family->done, 1, __ATOMIC_RELEASE);
  return NULL;
}

/* As PyTorch's watchdog, which takes anything but success for an error: calls of a communicator
 * that blocks are not in progress, while another thread waits in them. */
static void check_polls_of_blocking(Member m, ncclComm_t comm) {
  Family family = {comm, NULL, m.rank, 0};
  ncclResult_t error = ncclSuccess;
  pthread_t thread;
  if (m.rank == 0) usleep(50000); /* the others wait for it */
  is(pthread_create(&thread, NULL, make_and_end_child, &family) == 0, "a thread", m.rank);
  while (!__atomic_load_n(&family.done, __ATOMIC_ACQUIRE)) {
    ncclComm_t made = __atomic_load_n(&family.made, __ATOMIC_ACQUIRE);
    ok(ncclCommGetAsyncError(comm, &error), "GetAsyncError", m.rank);
    ok(error, "the error while it is split", m.rank);
    if (made != NULL && ncclCommGetAsyncError(made, &error) == ncclSuccess)
      ok(error, "the error while it is made or ended", m.rank);
  }
  pthread_join(thread, NULL);
}

/* The parent's configuration says whether a split blocks: a rank without a
 * colour has no other communicator to ask. */
static void check_blocking_of_the_parent(Member m, ncclComm_t comm) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t made = NULL;
  config.blocking = 0;
  const int color = m.rank == 0 ? NCCL_SPLIT_NOCOLOR : 7;
  ok(ncclCommSplit(comm, color, m.rank, &made, &config), "CommSplit of a blocking one", m.rank);
  check_sum(comm, m.rank);
  if (made == NULL) return;
  check_sum(made, m.rank);
  done_or_in_progress(ncclCommFinalize(made), &made, "CommFinalize", m.rank);
  ok(ncclCommDestroy(made), "CommDestroy", m.rank);
}

static void check_children(Member m, ncclComm_t comm) {
  ncclComm_t made = comm;
  int ranks = 0, rank = -1, last = m.ranks - 1;
  ok(ncclCommSplit(comm, m.rank == 0 ? NCCL_SPLIT_NOCOLOR : 7, -m.rank, &made, NULL), "CommSplit",
     m.rank);
  is((made == NULL) == (m.rank == 0), "no communicator without a colour", m.rank);
  if (made != NULL) {
    ok(ncclCommCount(made, &ranks), "CommCount", m.rank);
    ok(ncclCommUserRank(made, &rank), "CommUserRank", m.rank);
    is(ranks == m.ranks - 1 && rank == last - m.rank, "split by colour and key", m.rank);
    check_sum(made, m.rank);
    ok(ncclCommDestroy(made), "CommDestroy", m.rank);
  }
  if (m.ranks > 1 && m.rank != last) {
    ok(ncclCommShrink(comm, &last, 1, &made, NULL, NCCL_SHRINK_DEFAULT), "CommShrink", m.rank);
    check_sum(made, m.rank);
    ok(ncclCommDestroy(made), "CommDestroy", m.rank);
  }
  check_sum(comm, m.rank);
}

/* The handle that a split without a colour gave may be ended like any other, in a group too. */
static void check_null(Member m, ncclComm_t comm) {
  int mine = 1, sum = 0;
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  ok(ncclCommFinalize(NULL), "CommFinalize of NULL", m.rank);
  ok(ncclCommRevoke(NULL, NCCL_REVOKE_DEFAULT), "CommRevoke of NULL", m.rank);
  ok(ncclCommAbort(NULL), "CommAbort of NULL", m.rank);
  ok(ncclCommDestroy(NULL), "CommDestroy of NULL", m.rank);
  ok(ncclGroupEnd(), "GroupEnd", m.rank);
  is(sum == m.ranks, "the group ran", m.rank);
}

/* The first ranks grow their communicator by the last one. */
static void check_grow(Member m) {
#if NCCL_VERSION_CODE >= 22902
  const int newcomer = m.ranks - 1;
  ncclComm_t old = NULL, grown = NULL;
  ncclUniqueId id = take_id(m, 2);
  if (newcomer == 0) return;
  if (m.rank != newcomer) {
    ok(ncclCommInitRank(&old, newcomer, id, m.rank), "CommInitRank", m.rank);
  }
  if (m.rank == 0) {
    ok(ncclCommGetUniqueId(old, &m.shared->id[3]), "CommGetUniqueId", m.rank);
    __atomic_store_n(&m.shared->has_id[3], 1, __ATOMIC_RELEASE);
  }
  while (!__atomic_load_n(&m.shared->has_id[3], __ATOMIC_ACQUIRE)) usleep(1000);
  id = m.shared->id[3];
  ok(ncclCommGrow(old, m.ranks, m.rank == 0 || old == NULL ? &id : NULL,
                  old == NULL ? newcomer : -1, &grown, NULL),
     "CommGrow", m.rank);
  check_sum(grown, m.rank);
  if (old != NULL) ok(ncclCommDestroy(old), "CommDestroy", m.rank);
  ok(ncclCommDestroy(grown), "CommDestroy", m.rank);
#else
  (void)m;
#endif
}

#define WINDOWS 4
#define ROUNDS 10
#define WORDS 1024

#if NCCL_VERSION_CODE >= 22902
/* A word of its own through each window, to the next rank. */
static void put_through(const ncclComm_t* comms, int count, int* memory[2][WINDOWS],
                        ncclWindow_t windows[2][WINDOWS], int rank) {
  int words[2][WINDOWS], ranks = 0, own[2];
  for (int i = 0; i < count; ++i) {
    ok(ncclCommCount(comms[i], &ranks), "CommCount", rank);
    ok(ncclCommUserRank(comms[i], &own[i]), "CommUserRank", rank);
    for (int w = 0; w < WINDOWS; ++w) {
      words[i][w] = 100 * own[i] + w;
      ok(ncclPutSignal(&words[i][w], 1, ncclInt, (own[i] + 1) % ranks, windows[i][w],
                       (size_t)w * sizeof(int), 0, 0, 0, comms[i], NULL),
         "PutSignal", rank);
    }
  }
  for (int i = 0; i < count; ++i) {
    const int previous = (own[i] + ranks - 1) % ranks;
    ncclWaitSignalDesc_t wait = {WINDOWS, previous, 0, 0};
    ok(ncclWaitSignal(1, &wait, comms[i], NULL), "WaitSignal", rank);
    for (int w = 0; w < WINDOWS; ++w)
      is(memory[i][w][w] == 100 * previous + w, "a put through a window", rank);
  }
}
#endif

/* Several windows of each communicator, registered in one group by the one
 * thread that drives its ranks, or this one of them. Each is put through. */
static void check_windows(const ncclComm_t* comms, int count, int rank) {
  int* memory[2][WINDOWS];
  ncclWindow_t windows[2][WINDOWS] = {{NULL}};
  ok(ncclGroupStart(), "GroupStart", rank);
  for (int w = 0; w < WINDOWS; ++w) {
    for (int i = 0; i < count; ++i) {
      ok(ncclMemAlloc((void**)&memory[i][w], WORDS * sizeof(int)), "MemAlloc", rank);
      ok(ncclCommWindowRegister(comms[i], memory[i][w], WORDS * sizeof(int), &windows[i][w],
                                NCCL_WIN_COLL_SYMMETRIC),
         "WindowRegister", rank);
    }
  }
  ok(ncclGroupEnd(), "GroupEnd", rank);
#if NCCL_VERSION_CODE >= 22902
  put_through(comms, count, memory, windows, rank);
#endif
  for (int w = 0; w < WINDOWS; ++w) {
    for (int i = 0; i < count; ++i) {
      is(windows[i][w] != NULL, "a window of a group", rank);
      ok(ncclCommWindowDeregister(comms[i], windows[i][w]), "WindowDeregister", rank);
      ok(ncclMemFree(memory[i][w]), "MemFree", rank);
    }
  }
}

/* One thread makes and drives several ranks. */
static void check_one_thread(int rank) {
  ncclComm_t comms[3] = {NULL, NULL, NULL};
  const int devices[3] = {4, 2, 0};
  int mine[3] = {1, 2, 3}, sums[3] = {0, 0, 0}, device = -1;
  ok(ncclCommInitAll(comms, 3, devices), "CommInitAll", rank);
  ok(ncclCommCuDevice(comms[1], &device), "CommCuDevice", rank);
  is(device == 2, "CommCuDevice", rank);
  ok(ncclGroupStart(), "GroupStart", rank);
  for (int i = 0; i < 3; ++i) {
    ok(ncclAllReduce(&mine[i], &sums[i], 1, ncclInt, ncclSum, comms[i], NULL), "AllReduce", rank);
  }
  ok(ncclGroupEnd(), "GroupEnd", rank);
  is(sums[0] == 6 && sums[1] == 6 && sums[2] == 6, "AllReduce by one thread", rank);
  for (int i = 0; i < 3; ++i) ok(ncclCommDestroy(comms[i]), "CommDestroy", rank);

  /* The same by a group of calls. */
  ncclUniqueId id;
  ok(ncclGetUniqueId(&id), "GetUniqueId", rank);
  ok(ncclGroupStart(), "GroupStart", rank);
  for (int i = 0; i < 2; ++i) ok(ncclCommInitRank(&comms[i], 2, id, i), "CommInitRank", rank);
  ok(ncclGroupEnd(), "GroupEnd", rank);
  for (int round = 0; round < ROUNDS; ++round) check_windows(comms, 2, rank);
  for (int i = 0; i < 2; ++i) ok(ncclCommDestroy(comms[i]), "CommDestroy", rank);
  /* A group that is refused leaves no communicator behind. */
  ok(ncclGroupStart(), "GroupStart", rank);
  ok(ncclCommInitRank(&comms[0], 2, id, 0), "CommInitRank", rank);
  refused(ncclCommInitRank(&comms[1], 2, id, 7), ncclInvalidArgument, "rank 7", rank);
  refused(ncclGroupEnd(), ncclInvalidArgument, "rank 7", rank);
  is(comms[0] == NULL && comms[1] == NULL, "no communicators", rank);
}

typedef struct {
  ncclComm_t comm;
  ncclResult_t result;
} Stuck;

static void* wait_in_vain(void* argument) {
  Stuck* stuck = (Stuck*)argument;
  int mine = 1, sum = 0;
  stuck->result = ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, stuck->comm, NULL);
  return NULL;
}

/* As PyTorch's watchdog: a thread aborts what another thread waits in. */
static void check_abort_of_a_running_call(Member m, ncclComm_t comm) {
  Stuck stuck = {comm, ncclSuccess};
  pthread_t thread;
  meet(m);
  if (m.ranks > 1 && m.rank == 0) {
    is(pthread_create(&thread, NULL, wait_in_vain, &stuck) == 0, "a thread", m.rank);
    usleep(50000);
    ok(ncclCommAbort(comm), "CommAbort", m.rank);
    pthread_join(thread, NULL);
    is(stuck.result == ncclRemoteError || stuck.result == ncclInvalidUsage, "the aborted call",
       m.rank);
  } else {
    usleep(200000);
    ok(ncclCommAbort(comm), "CommAbort", m.rank);
  }
}

static void* destroy(void* argument) {
  Stuck* stuck = (Stuck*)argument;
  stuck->result = ncclCommDestroy(stuck->comm);
  return NULL;
}

/* The abort ends the destroy of another thread, which waits for a third one's call. */
static void check_abort_of_a_destroy(Member m) {
  Stuck call = {NULL, ncclSuccess}, end = {NULL, ncclInProgress};
  pthread_t caller, ender;
  int count = 0;
  ok(ncclCommInitRank(&call.comm, m.ranks, take_id(m, 5), m.rank), "CommInitRank", m.rank);
  check_sum(call.comm, m.rank);
  meet(m);
  if (m.ranks > 1 && m.rank == 0) {
    end.comm = call.comm;
    is(pthread_create(&caller, NULL, wait_in_vain, &call) == 0, "a thread", m.rank);
    usleep(50000);
    is(pthread_create(&ender, NULL, destroy, &end) == 0, "a thread", m.rank);
    while (ncclCommCount(call.comm, &count) == ncclSuccess) usleep(1000); /* it has begun */
    ok(ncclCommAbort(call.comm), "CommAbort beside a destroy", m.rank);
    refused(ncclCommAbort(call.comm), ncclInvalidUsage, "aborted", m.rank);
    pthread_join(caller, NULL);
    pthread_join(ender, NULL);
    ok(end.result, "CommDestroy that was aborted", m.rank);
    is(call.result == ncclRemoteError || call.result == ncclInvalidUsage, "its call", m.rank);
    meet(m);
  } else {
    meet(m);
    ok(ncclCommAbort(call.comm), "CommAbort", m.rank);
  }
}

static void* make_in_vain(void* argument) {
  Stuck* stuck = (Stuck*)argument;
  ncclUniqueId id;
  ok(ncclGetUniqueId(&id), "GetUniqueId", 0);
  stuck->result = ncclCommInitRank(&stuck->comm, 2, id, 0); /* nobody else comes */
  return NULL;
}

/* Nothing is left behind the handle, and a watchdog polls it on. */
static void check_abort_of_a_making(int rank) {
  Stuck making = {NULL, ncclSuccess};
  ncclComm_t comm = NULL;
  ncclResult_t error = ncclInternalError;
  pthread_t thread;
  is(pthread_create(&thread, NULL, make_in_vain, &making) == 0, "a thread", rank);
  while (comm == NULL) {
    usleep(1000);
    comm = __atomic_load_n(&making.comm, __ATOMIC_ACQUIRE);
  }
  usleep(50000);
  ok(ncclCommAbort(comm), "CommAbort beside an init", rank);
  pthread_join(thread, NULL);
  is(making.result != ncclSuccess, "the aborted init", rank);
  ok(ncclCommGetAsyncError(comm, &error), "GetAsyncError", rank);
  is(error == ncclSuccess, "no error behind an abort", rank);
  refused(ncclCommAbort(comm), ncclInvalidUsage, "was aborted", rank);
}

static void check_revoke(Member m) {
  int mine = 1, sum = 0;
  ncclComm_t comm = NULL, made = NULL;
  ncclUniqueId id = take_id(m, 4);
  ok(ncclCommInitRankScalable(&comm, m.ranks, m.rank, 1, &id, NULL), "InitRankScalable", m.rank);
  check_sum(comm, m.rank);
  meet(m);
  refused(ncclCommRevoke(comm, 5), ncclInvalidArgument, "", m.rank);
  ok(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), "CommRevoke", m.rank);
  refused(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), ncclInvalidUsage, "revoked",
          m.rank);
  ok(ncclCommShrink(comm, NULL, 0, &made, NULL, NCCL_SHRINK_ABORT), "CommShrink", m.rank);
  check_sum(made, m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
  ok(ncclCommDestroy(made), "CommDestroy", m.rank);
}

static void body(Member m) {
  ncclComm_t comm = join(m);
  check_children(m, comm);
  check_null(m, comm);
  check_polls_of_blocking(m, comm);
  for (int round = 0; round < ROUNDS; ++round) check_windows(&comm, 1, m.rank);
  check_nonblocking(m);
  check_blocking_of_the_parent(m, comm);
  check_grow(m);
  check_revoke(m);
  check_abort_of_a_destroy(m);
  if (m.rank == 0) check_one_thread(m.rank);
  if (m.rank == 0) check_abort_of_a_making(m.rank);
  check_abort_of_a_running_call(m, comm);
}

int main(int argc, char** argv) { return run_ranks(argc > 1 ? atoi(argv[1]) : 2, body); }
