/* Mistakes of programs that must not spoil anything else, one function each: mistakes NAME [RANKS].
 */
#include <pthread.h>
#include <sys/resource.h>

#include "tests/nccl/ranks.h"

static void check_sum(ncclComm_t comm, Member m) {
  int mine = 1, sum = 0;
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  is(sum == m.ranks, "AllReduce", m.rank);
}

/* A communicator whose abort was refused lives, and can be aborted later. */
static void refused_aborts(Member m) {
  ncclComm_t comm = join(m), planned = NULL;
  ncclResult_t error = ncclSuccess;
  int mine = 1, sum = 0;
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  refused(ncclCommAbort(comm), ncclInvalidUsage, "the open group", m.rank);
  refused(ncclGroupEnd(), ncclInvalidUsage, "the open group", m.rank);
  check_sum(comm, m);

  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclCommInitRank(&planned, m.ranks, take_id(m, 1), m.rank), "CommInitRank", m.rank);
  refused(ncclCommAbort(planned), ncclInvalidUsage, "the end of the open group", m.rank);
  refused(ncclCommAbort(planned), ncclInvalidUsage, "the end of the open group", m.rank);
  refused(ncclGroupEnd(), ncclInvalidUsage, "the end of the open group", m.rank);
  is(planned == NULL, "nothing of the group is made", m.rank);

  /* A refused abort must not hide the failure of which others are told. */
  meet(m);
  if (m.rank == 0) {
    ok(ncclCommAbort(comm), "CommAbort", m.rank);
    refused(ncclCommAbort(comm), ncclInvalidUsage, "aborted", m.rank);
    meet(m);
    return;
  }
  meet(m);
  refused(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), ncclRemoteError, "", m.rank);
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL);
  refused(ncclCommAbort(comm), ncclInvalidUsage, "the open group", m.rank);
  ok(ncclCommGetAsyncError(comm, &error), "GetAsyncError", m.rank);
  is(error == ncclRemoteError, "the error of a communicator that lives", m.rank);
  is(ncclGroupEnd() != ncclSuccess, "the group", m.rank);
  ok(ncclCommAbort(comm), "CommAbort", m.rank);
}

/* Rank 0 brings these; the others 4096 bytes from ncclMemAlloc. */
static ncclResult_t add_window(Member m, ncclComm_t comm, void* memory, size_t bytes,
                               ncclWindow_t* window) {
  static void* shared = NULL;
  if (shared == NULL) ok(ncclMemAlloc(&shared, 4096), "MemAlloc", m.rank);
  *window = NULL;
  return m.rank == 0 ? ncclCommWindowRegister(comm, memory, bytes, window, 0)
                     : ncclCommWindowRegister(comm, shared, 4096, window, 0);
}

/* Registering is collective: no rank may leave the others waiting. */
static void empty_windows(Member m) {
  ncclComm_t comm = join(m);
  ncclWindow_t window = NULL;
  void* larger = NULL;
  char own[64];
  ok(add_window(m, comm, NULL, 0, &window), "an empty window", m.rank);
  is(window != NULL, "an empty window", m.rank);
  ok(ncclCommWindowDeregister(comm, window), "WindowDeregister", m.rank);
  ok(add_window(m, comm, own, 0, &window), "an empty window", m.rank);
  ok(ncclCommWindowDeregister(comm, window), "WindowDeregister", m.rank);
  is(add_window(m, comm, NULL, 64, &window) != ncclSuccess && window == NULL,
     "a window of no memory", m.rank);
  if (m.rank == 0) {
    refused(ncclCommWindowRegister(comm, own, 64, NULL, 0), ncclInvalidArgument, "null", m.rank);
  } else {
    is(add_window(m, comm, NULL, 0, &window) != ncclSuccess, "a lost window", m.rank);
  }
  ok(ncclMemAlloc(&larger, 8192), "MemAlloc", m.rank);
  ok(add_window(m, comm, larger, 8192, &window), "parts of different sizes", m.rank);
  check_sum(comm, m);
  ok(ncclCommWindowDeregister(comm, window), "WindowDeregister", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

/* Calls by which a program tries something out between start and end are no part of the group. */
static void probes_in_groups(Member m) {
  ncclComm_t comm = join(m);
  int mine = 1, sum = 0;
  ncclWindow_t none = NULL;
  ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
  ncclParamHandle_t parameter = NULL;
  void* memory = NULL;
  properties.magic = 1;
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  is(ncclDevCommCreate(comm, NULL, NULL) != ncclSuccess, "DevComm", m.rank);
  is(ncclParamBind(&parameter, "NCCL_X") != ncclSuccess, "ParamBind", m.rank);
  is(ncclCommQueryProperties(comm, &properties) != ncclSuccess, "properties", m.rank);
  is(ncclGetVersion(NULL) != ncclSuccess, "GetVersion", m.rank);
  is(ncclCommCount(NULL, NULL) != ncclSuccess, "CommCount", m.rank);
  is(ncclCommGetAsyncError(NULL, NULL) != ncclSuccess, "AsyncError", m.rank);
  is(ncclCommRegister(comm, NULL, 0, NULL) != ncclSuccess, "Register", m.rank);
  is(ncclCommDeregister(comm, &mine) != ncclSuccess, "Deregister", m.rank);
  is(ncclWinGetUserPtr(comm, none, &memory) != ncclSuccess, "GetUserPtr", m.rank);
  is(ncclGetPeerDevicePointer(none, 0, 0, &memory) != ncclSuccess, "pointer", m.rank);
  ok(ncclGroupEnd(), "GroupEnd", m.rank);
  is(sum == m.ranks, "the group ran", m.rank);

  /* A part of it that was refused is said again at the end, in its words. */
  ok(ncclGroupStart(), "GroupStart", m.rank);
  refused(ncclBroadcast(&mine, &sum, 1, ncclInt, m.ranks + 3, comm, NULL), ncclInvalidArgument,
          "root", m.rank);
  is(ncclParamBind(&parameter, "NCCL_X") != ncclSuccess, "ParamBind", m.rank);
  refused(ncclGroupEnd(), ncclInvalidArgument, "root", m.rank);
  check_sum(comm, m);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

/* A simulated group runs nothing, and windows cannot be simulated. */
static void simulated_windows(Member m) {
  ncclComm_t comm = join(m);
  ncclSimInfo_t simulation = NCCL_SIM_INFO_INITIALIZER;
  ncclWindow_t window = NULL;
  char memory[64];
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclCommWindowRegister(comm, memory, sizeof memory, &window, 0), "WindowRegister", m.rank);
  refused(ncclGroupSimulateEnd(&simulation), ncclInvalidUsage, "windows", m.rank);
  is(window == NULL, "no window", m.rank);
  check_sum(comm, m);
  /* Only the outermost end looks at what it may write. */
  ncclSimInfo_t wrong = NCCL_SIM_INFO_INITIALIZER;
  int mine = 1, sum = 0;
  wrong.magic = 5;
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  ok(ncclGroupSimulateEnd(&wrong), "a nested GroupSimulateEnd", m.rank);
  refused(ncclGroupSimulateEnd(&wrong), ncclInvalidArgument, "INITIALIZER", m.rank);
  check_sum(comm, m);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

/* Pointers that are no communicators of this library are refused, whatever bytes they point to. */
static void foreign_handles(Member m) {
  static uint64_t bytes[64];
  int mine = 1, sum = 0, count = 0;
  for (size_t i = 0; i < 64; ++i) bytes[i] = 0x0000000100000001u;
  ncclComm_t foreign = (ncclComm_t)bytes;
  refused(ncclCommCount(foreign, &count), ncclInvalidArgument, "not a communicator", m.rank);
  refused(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, foreign, NULL), ncclInvalidArgument,
          "not a communicator", m.rank);
  refused(ncclCommDestroy(foreign), ncclInvalidArgument, "not a communicator", m.rank);
  refused(ncclCommAbort(foreign), ncclInvalidArgument, "not a communicator", m.rank);
}

/* Rank 0 registers in a group what the others register one by one. */
static void windows_grouped_differently(Member m) {
  ncclComm_t comm = join(m);
  ncclWindow_t windows[3] = {NULL, NULL, NULL};
  void* memory[3];
  if (m.rank == 0) ok(ncclGroupStart(), "GroupStart", m.rank);
  for (int i = 0; i < 3; ++i) {
    const size_t bytes = 4096 << i;
    ok(ncclMemAlloc(&memory[i], bytes), "MemAlloc", m.rank);
    ok(ncclCommWindowRegister(comm, memory[i], bytes, &windows[i], NCCL_WIN_COLL_SYMMETRIC),
       "WindowRegister", m.rank);
  }
  if (m.rank == 0) ok(ncclGroupEnd(), "GroupEnd", m.rank);
  for (int i = 0; i < 3; ++i) {
    is(windows[i] != NULL, "a window", m.rank);
    ok(ncclCommWindowDeregister(comm, windows[i]), "WindowDeregister", m.rank);
  }
  check_sum(comm, m);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

/* The exchange for a window is not taken for a sum of the program, though it had this count, type
 * and operation. */
static void a_window_for_a_sum(Member m) {
  ncclComm_t comm = join(m);
  ncclWindow_t window = NULL;
  char memory[64];
  long long mine[3] = {1, 2, 3}, least[3] = {7, 7, 7};
  if (m.rank == 0) {
    is(ncclCommWindowRegister(comm, memory, sizeof memory, &window, 0) != ncclSuccess, "a window",
       m.rank);
  } else {
    is(ncclAllReduce(mine, least, 3, ncclInt64, ncclMin, comm, NULL) != ncclSuccess, "a sum",
       m.rank);
  }
  is(strstr(ncclGetLastError(NULL), "differ") != NULL, ncclGetLastError(NULL), m.rank);
  ok(ncclCommAbort(comm), "CommAbort", m.rank);
}

/* Nothing follows that would show it: the end of the communicator says so, in the log. */
static void a_last_call_that_differs(Member m) {
  ncclComm_t comm = join(m);
  int mine = m.rank, result = -1;
  check_sum(comm, m);
  ok(ncclBroadcast(&mine, &result, 1, ncclInt, m.rank == 1, comm, NULL), "Broadcast", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

/* A mistake with one communicator of a group does not concern the others. */
static void windows_beside_a_finalized_communicator(Member m) {
  ncclComm_t comm = join(m), finalized = NULL;
  ncclWindow_t window = NULL, none = NULL;
  char memory[64];
  ok(ncclCommInitRank(&finalized, m.ranks, take_id(m, 1), m.rank), "CommInitRank", m.rank);
  if (m.rank == 0) ok(ncclCommFinalize(finalized), "CommFinalize", m.rank);
  ok(ncclGroupStart(), "GroupStart", m.rank);
  if (m.rank == 0)
    ok(ncclCommWindowRegister(finalized, memory, sizeof memory, &none, 0), "Window", m.rank);
  ok(ncclCommWindowRegister(comm, memory, sizeof memory, &window, 0), "Window", m.rank);
  if (m.rank == 0) {
    refused(ncclGroupEnd(), ncclInvalidUsage, "finalized", m.rank);
  } else {
    ok(ncclGroupEnd(), "GroupEnd", m.rank);
  }
  is(window != NULL && none == NULL, "one window", m.rank);
  ok(ncclCommWindowDeregister(comm, window), "WindowDeregister", m.rank);
  check_sum(comm, m);
  ok(ncclCommDestroy(finalized), "CommDestroy", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

/* A window that an open group may use stays, with its handle. */
static void refused_deregistrations(Member m) {
  ncclComm_t comm = join(m);
  int mine = 1, sum = 0;
  ncclWindow_t window = NULL;
  void *memory = NULL, *found = NULL;
  ok(ncclMemAlloc(&memory, 4096), "MemAlloc", m.rank);
  ok(ncclCommWindowRegister(comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC), "WindowRegister",
     m.rank);
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  refused(ncclCommWindowDeregister(comm, window), ncclInvalidUsage, "the open group", m.rank);
  ok(ncclGroupEnd(), "GroupEnd", m.rank);
  is(sum == m.ranks, "the group ran", m.rank);
  ok(ncclWinGetUserPtr(comm, window, &found), "WinGetUserPtr", m.rank);
  is(found == memory, "WinGetUserPtr", m.rank);
  ok(ncclCommWindowDeregister(comm, window), "WindowDeregister", m.rank);
  refused(ncclCommWindowDeregister(comm, window), ncclInvalidArgument, "neither", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
  ok(ncclMemFree(memory), "MemFree", m.rank);
}

typedef struct {
  ncclComm_t comm;
  int done;
} Watched;

static void* look_on(void* argument) {
  Watched* watched = (Watched*)argument;
  ncclResult_t error = ncclSuccess;
  while (!__atomic_load_n(&watched->done, __ATOMIC_ACQUIRE)) {
    ncclComm_t comm = __atomic_load_n(&watched->comm, __ATOMIC_ACQUIRE);
    if (comm != NULL) ncclCommGetAsyncError(comm, &error);
  }
  return NULL;
}

/* A watchdog looks on while a communicator is made, and cannot be: the other
 * rank never comes. */
static void watched_failures(Member m) {
  Watched watched = {NULL, 0};
  ncclUniqueId id;
  pthread_t thread;
  setenv("TUTTI_INIT_TIMEOUT", "0.3", 1);
  ok(ncclGetUniqueId(&id), "GetUniqueId", m.rank);
  is(pthread_create(&thread, NULL, look_on, &watched) == 0, "a thread", m.rank);
  is(ncclCommInitRank(&watched.comm, 2, id, 0) != ncclSuccess, "CommInitRank", m.rank);
  __atomic_store_n(&watched.done, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  is(watched.comm == NULL, "no communicator", m.rank);
}

/* One rank does not call, and the other's deadline passes. */
static void an_absent_rank(Member m) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  const ncclUniqueId id = take_id(m, 0);
  ncclComm_t comm = NULL;
  int mine = m.rank, sum = 0;
  config.commName = "world";
  ok(ncclCommInitRankConfig(&comm, m.ranks, id, m.rank, &config), "CommInitRankConfig", m.rank);
  if (m.rank == 0) {
    is(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL) != ncclSuccess, "late", m.rank);
  }
  meet(m);
  ok(ncclCommAbort(comm), "CommAbort", m.rank);
}

static void limit_threads(rlim_t most, int rank) {
  struct rlimit limit;
  is(getrlimit(RLIMIT_NPROC, &limit) == 0, "getrlimit", rank);
  limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
  is(setrlimit(RLIMIT_NPROC, &limit) == 0, "setrlimit", rank);
}

static void register_both(ncclComm_t* comms, void** memory, ncclWindow_t* windows, int rank) {
  ok(ncclGroupStart(), "GroupStart", rank);
  for (int i = 0; i < 2; ++i) {
    ok(ncclCommWindowRegister(comms[i], memory[i], 4096, &windows[i], 0), "WindowRegister", rank);
  }
}

/* Where the system gives no more threads a call says so. */
static void no_threads(Member m) {
  const uid_t nobody = 65534;
  ncclComm_t comms[2];
  ncclWindow_t windows[2] = {NULL, NULL};
  void* memory[2];
  ok(ncclCommInitAll(comms, 2, NULL), "CommInitAll", m.rank);
  for (int i = 0; i < 2; ++i) ok(ncclMemAlloc(&memory[i], 4096), "MemAlloc", m.rank);
  if (geteuid() == 0) /* whom no limit holds */
    is(setuid(nobody) == 0, "setuid", m.rank);
  limit_threads(0, m.rank);
  register_both(comms, memory, windows, m.rank);
  refused(ncclGroupEnd(), ncclSystemError, "no thread for each of the 2", m.rank);
  is(windows[0] == NULL && windows[1] == NULL, "no window", m.rank);
  limit_threads(RLIM_INFINITY, m.rank);
  register_both(comms, memory, windows, m.rank);
  ok(ncclGroupEnd(), "GroupEnd", m.rank);
  is(windows[0] != NULL && windows[1] != NULL, "both windows", m.rank);
  for (int i = 0; i < 2; ++i) ok(ncclCommDestroy(comms[i]), "CommDestroy", m.rank);
}

/* An impossible number of ranks is refused at once, in a group, too, and no handle is written. */
static void wrong_numbers_of_ranks(Member m) {
  ncclComm_t comms[2] = {NULL, NULL};
  const int devices[2] = {0, -1};
  ok(ncclCommInitAll(comms, 0, NULL), "CommInitAll of none", m.rank);
  refused(ncclCommInitAll(comms, 1 << 30, NULL), ncclInvalidArgument, "number of ranks", m.rank);
  refused(ncclCommInitAll(comms, -1, NULL), ncclInvalidArgument, "number of ranks", m.rank);
  ok(ncclGroupStart(), "GroupStart", m.rank);
  refused(ncclCommInitAll(comms, 2, devices), ncclInvalidArgument, "device", m.rank);
  is(comms[0] == NULL && comms[1] == NULL, "no communicators", m.rank);
  refused(ncclGroupEnd(), ncclInvalidArgument, "device", m.rank);
}

static const struct {
  const char* name;
  Body body;
} kMistakes[] = {
    {"wrong_numbers_of_ranks", wrong_numbers_of_ranks},
    {"refused_aborts", refused_aborts},
    {"empty_windows", empty_windows},
    {"probes_in_groups", probes_in_groups},
    {"refused_deregistrations", refused_deregistrations},
    {"watched_failures", watched_failures},
    {"an_absent_rank", an_absent_rank},
    {"no_threads", no_threads},
    {"simulated_windows", simulated_windows},
    {"foreign_handles", foreign_handles},
    {"windows_grouped_differently", windows_grouped_differently},
    {"a_window_for_a_sum", a_window_for_a_sum},
    {"a_last_call_that_differs", a_last_call_that_differs},
    {"windows_beside_a_finalized_communicator", windows_beside_a_finalized_communicator},
};

int main(int argc, char** argv) {
  for (size_t i = 0; argc > 1 && i < sizeof kMistakes / sizeof *kMistakes; ++i) {
    if (strcmp(argv[1], kMistakes[i].name) != 0) continue;
    return run_ranks(argc > 2 ? atoi(argv[2]) : 1, kMistakes[i].body);
  }
  return 2;
}
