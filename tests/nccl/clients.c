/* Calls that clients of NCCL are known to make, one function each: clients NAME [RANKS]. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/nccl/ranks.h"

/* Looked up weakly by nccl-tests, which runs with any NCCL. */
#pragma weak ncclAlltoAll
#pragma weak ncclCommWindowRegister
#pragma weak ncclCommWindowDeregister
#pragma weak ncclDevCommCreate
#pragma weak ncclDevCommDestroy
#pragma weak ncclCommQueryProperties
#pragma weak ncclGetLastError

/* torch.cuda.nccl sends 8-bit floats as bytes, and builds gather, scatter and
 * the all_to_all of unequal parts from groups of sends and receives. */
static void pytorch_collectives(Member m) {
  ncclComm_t comm = join(m);
  uint8_t floats[16], all[MOST_RANKS * 16];
  memset(floats, 0x38 + m.rank, sizeof floats);
  ok(ncclAllGather(floats, all, sizeof floats, ncclUint8, comm, NULL), "AllGather", m.rank);
  for (int i = 0; i < m.ranks * 16; ++i) is(all[i] == 0x38 + i / 16, "8-bit floats", m.rank);

  int mine = m.rank + 10, gathered[MOST_RANKS] = {0};
  ok(ncclGroupStart(), "GroupStart", m.rank);
  for (int peer = 0; m.rank == 0 && peer < m.ranks; ++peer) {
    ok(ncclRecv(&gathered[peer], 1, ncclInt, peer, comm, NULL), "Recv", m.rank);
  }
  ok(ncclSend(&mine, 1, ncclInt, 0, comm, NULL), "Send", m.rank);
  ok(ncclGroupEnd(), "GroupEnd", m.rank);
  for (int peer = 0; m.rank == 0 && peer < m.ranks; ++peer) {
    is(gathered[peer] == peer + 10, "gather", m.rank);
  }

  /* rank i sends i + j elements to rank j; some pairs send nothing. */
  int send[MOST_RANKS * 2 * MOST_RANKS], recv[MOST_RANKS * 2 * MOST_RANKS];
  int sent = 0, received = 0;
  for (size_t i = 0; i < sizeof send / sizeof *send; ++i) send[i] = m.rank;
  ok(ncclGroupStart(), "GroupStart", m.rank);
  for (int peer = 0; peer < m.ranks; ++peer) {
    const size_t count = m.rank + peer;
    ok(ncclSend(send + sent, count, ncclInt, peer, comm, NULL), "Send", m.rank);
    ok(ncclRecv(recv + received, count, ncclInt, peer, comm, NULL), "Recv", m.rank);
    sent += count;
    received += count;
  }
  ok(ncclGroupEnd(), "GroupEnd", m.rank);
  for (int peer = 0, at = 0; peer < m.ranks; ++peer) {
    for (int i = 0; i < m.rank + peer; ++i) is(recv[at++] == peer, "unequal parts", m.rank);
  }
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

/* PyTorch's abort gives every handle to ncclCommDeregister, those of windows
 * too. */
static void megatron_deregister(Member m) {
  ncclComm_t comm = join(m);
  void *memory = NULL, *handle = NULL;
  ncclWindow_t window = NULL;
  ok(ncclMemAlloc(&memory, 1 << 16), "MemAlloc", m.rank);
  ok(ncclCommRegister(comm, memory, 1 << 16, &handle), "CommRegister", m.rank);
  ok(ncclCommWindowRegister(comm, memory, 1 << 16, &window, NCCL_WIN_COLL_SYMMETRIC),
     "CommWindowRegister", m.rank);
  ok(ncclCommDeregister(comm, (void*)window), "CommDeregister of a window", m.rank);
  ok(ncclCommDeregister(comm, handle), "CommDeregister", m.rank);
  refused(ncclCommDeregister(comm, (void*)window), ncclInvalidArgument, "neither", m.rank);
  meet(m);
  ok(ncclCommAbort(comm), "CommAbort", m.rank);
  ok(ncclMemFree(memory), "MemFree", m.rank);
}

/* PyTorch polls the handle after an abort until nothing is in progress, then
 * forgets it. */
static void pytorch_abort(Member m) {
  ncclComm_t comm = join(m);
  ncclResult_t error = ncclInProgress;
  int mine = 1, sum = 0;
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  meet(m);
  ok(ncclCommAbort(comm), "CommAbort", m.rank);
  ok(ncclCommGetAsyncError(comm, &error), "CommGetAsyncError", m.rank);
  is(error == ncclSuccess, "the error after an abort", m.rank);
  refused(ncclCommAbort(comm), ncclInvalidUsage, "aborted", m.rank);
  refused(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), ncclInvalidUsage, "aborted",
          m.rank);
}

typedef struct {
  ncclComm_t comm;
  int grouped;
  int* buffer;
  volatile int begun;
  ncclResult_t result;
} Late;

enum { kLateInts = 1 << 14 };

static void* wait_for_the_late(void* argument) {
  Late* late = (Late*)argument;
  if (late->grouped) ncclGroupStart();
  late->begun = 1;
  late->result =
      ncclAllReduce(late->buffer, late->buffer, kLateInts, ncclInt, ncclSum, late->comm, NULL);
  if (late->grouped) late->result = ncclGroupEnd();
  return NULL;
}

/* A rank waits for one that never comes; its watchdog first takes every handle
 * back, then aborts. */
static void watch(Member m, int grouped) {
  Late late = {NULL, grouped, NULL, 0, ncclSuccess};
  void *shared = NULL, *own = malloc(64), *handle = NULL;
  ncclWindow_t windows[2] = {NULL, NULL};
  pthread_t thread;
  ok(ncclCommInitRank(&late.comm, m.ranks, take_id(m, grouped), m.rank), "CommInitRank", m.rank);
  ok(ncclMemAlloc(&shared, kLateInts * sizeof(int)), "MemAlloc", m.rank);
  late.buffer = (int*)shared;
  ok(ncclCommRegister(late.comm, own, 64, &handle), "CommRegister", m.rank);
  ok(ncclCommWindowRegister(late.comm, shared, kLateInts * sizeof(int), &windows[0],
                            NCCL_WIN_COLL_SYMMETRIC),
     "CommWindowRegister", m.rank);
  ok(ncclCommWindowRegister(late.comm, own, 64, &windows[1], 0), "CommWindowRegister", m.rank);
  meet(m);
  if (m.rank == 0) {
    is(pthread_create(&thread, NULL, wait_for_the_late, &late) == 0, "a thread", m.rank);
    while (!late.begun) usleep(1000);
    usleep(50000);
  } else {
    meet(m); /* rank 0 is done */
  }
  for (int i = 0; i < 2; ++i) {
    ok(ncclCommDeregister(late.comm, (void*)windows[i]), "CommDeregister of a window", m.rank);
  }
  ok(ncclCommDeregister(late.comm, handle), "CommDeregister", m.rank);
  ok(ncclCommAbort(late.comm), "CommAbort", m.rank);
  if (m.rank == 0) {
    pthread_join(thread, NULL);
    is(late.result == ncclRemoteError || late.result == ncclInvalidUsage, "the aborted call",
       m.rank);
    meet(m);
  }
  ok(ncclMemFree(shared), "MemFree", m.rank);
  free(own);
}

static void pytorch_watchdog(Member m) {
  watch(m, 0);
  watch(m, 1);
}

/* NCCL_COMM_ID=HOST:PORT: nobody hands an id on, every rank asks for one. */
static void by_comm_id(Member m) {
  for (int i = 0; i < 3; ++i) {
    ncclUniqueId id;
    ncclComm_t comm = NULL, half = NULL;
    int mine = 1, sum = 0;
    if (m.rank == 0 && i == 0) usleep(100000); /* the others wait for it */
    ok(ncclGetUniqueId(&id), "GetUniqueId", m.rank);
    ok(ncclCommInitRank(&comm, m.ranks, id, m.rank), "CommInitRank", m.rank);
    ok(ncclCommSplit(comm, m.rank % 2, 0, &half, NULL), "CommSplit", m.rank);
    ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
    is(sum == m.ranks, "AllReduce", m.rank);
    ok(ncclCommDestroy(half), "CommDestroy", m.rank);
    if (i > 0) ok(ncclCommDestroy(comm), "CommDestroy", m.rank); /* one stays */
  }
  ncclComm_t own[2];
  ok(ncclCommInitAll(own, 2, NULL), "CommInitAll", m.rank);
  for (int i = 0; i < 2; ++i) ok(ncclCommDestroy(own[i]), "CommDestroy", m.rank);
}

static ncclResult_t init_with(Member m, int number, ncclConfig_t* config, ncclComm_t* comm) {
  return ncclCommInitRankConfig(comm, m.ranks, take_id(m, number), m.rank, config);
}

/* PyTorch compiles for one version and runs with another; configurations.c has
 * those of all versions. */
static void pytorch_versions(Member m) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  config.magic = 1;
  refused(init_with(m, 0, &config, &comm), ncclInvalidArgument, "NCCL_CONFIG_INITIALIZER", m.rank);
  config.magic = 0xcafebeef;
  config.blocking = 2;
  refused(init_with(m, 1, &config, &comm), ncclInvalidArgument, "blocking", m.rank);
  ok(init_with(m, 2, NULL, &comm), "no configuration", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

/* Megatron names the network and sets thread blocks for each group, and changes
 * the environment before the first communicator is made. */
static void megatron_options(Member m) {
  static const char* const kNetworks[] = {"ib", "socket", "IB", "Socket"};
  int version = 0;
  setenv("NCCL_COLLNET_ENABLE", "1", 1);
  setenv("TUTTI_NCCL_VERSION", "22809", 1);
  unsetenv("NCCL_COLLNET_ENABLE");
  for (int i = 0; i < 4; ++i) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    int mine = 1, sum = 0;
    config.netName = kNetworks[i];
    config.cgaClusterSize = 2;
    config.minCTAs = 4;
    config.maxCTAs = 16;
    ok(init_with(m, i, &config, &comm), "CommInitRankConfig", m.rank);
    ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
    is(sum == m.ranks, "AllReduce", m.rank);
    ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
  }
  ok(ncclGetVersion(&version), "GetVersion", m.rank);
  is(version == 22809, "the environment is read when it is first needed", m.rank);
}

/* DeepSpeed and NCCL's own tools preload a library that defines ncclX and calls
 * pncclX. */
static void deepspeed_interposer(Member m) {
  int (*count)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "interposed_calls");
  ncclComm_t comm = join(m);
  int mine = 1, sum = 0;
  is(count != NULL, "the interposer is loaded", m.rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  is(sum == m.ranks && count() == 1, "the interposer saw the call and Tutti ran it", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

/* nccl-tests refers weakly to what older versions lack. */
static void nccl_tests_weak(Member m) {
  int device_api = -1;
  is(ncclAlltoAll != NULL && ncclCommWindowRegister != NULL && ncclCommWindowDeregister != NULL &&
         ncclGetLastError != NULL,
     "weak references are found", m.rank);
#if NCCL_VERSION_CODE >= 23000
  is(ncclDevCommCreate != NULL && ncclDevCommDestroy != NULL && ncclCommQueryProperties != NULL,
     "weak references are found", m.rank);
  ncclComm_t comm = join(m);
  ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
  ok(ncclCommQueryProperties(comm, &properties), "CommQueryProperties", m.rank);
  device_api = properties.deviceApiSupport;
  is(properties.nRanks == m.ranks && properties.rank == m.rank, "properties", m.rank);
  is(device_api == 0, "the device API is refused", m.rank);
  refused(ncclDevCommCreate(comm, NULL, NULL), ncclInvalidUsage, "device API", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
#endif
  (void)device_api;
}

/* XLA makes communicators that do not block, splits them, and polls. */
static void xla_nonblocking(Member m) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL, half = NULL;
  ncclResult_t error = ncclInProgress;
  void* memory = NULL;
  config.blocking = 0;
  config.maxCTAs = 32;
  ncclResult_t begun = init_with(m, 0, &config, &comm);
  is(begun == ncclSuccess || begun == ncclInProgress, "CommInitRankConfig", m.rank);
  while (error == ncclInProgress) ok(ncclCommGetAsyncError(comm, &error), "async", m.rank);
  ok(error, "making a communicator", m.rank);
  begun = ncclCommSplit(comm, m.rank % 2, m.rank, &half, &config);
  is(begun == ncclSuccess || begun == ncclInProgress, "CommSplit", m.rank);
  error = ncclInProgress;
  while (error == ncclInProgress) ok(ncclCommGetAsyncError(half, &error), "async", m.rank);
  ok(error, "splitting a communicator", m.rank);
  ok(ncclMemAlloc(&memory, 1 << 20), "MemAlloc", m.rank);
  *(int*)memory = 1;
  ok(ncclAllReduce(memory, memory, 1, ncclInt, ncclSum, half, NULL), "AllReduce", m.rank);
  is(*(int*)memory == (m.ranks + 1 - m.rank % 2) / 2, "AllReduce in a half", m.rank);
  meet(m);
  ncclCommAbort(half);
  ncclCommAbort(comm);
}

static const struct {
  const char* name;
  Body body;
} kClients[] = {
    {"pytorch_collectives", pytorch_collectives},
    {"megatron_deregister", megatron_deregister},
    {"pytorch_abort", pytorch_abort},
    {"pytorch_watchdog", pytorch_watchdog},
    {"by_comm_id", by_comm_id},
    {"pytorch_versions", pytorch_versions},
    {"megatron_options", megatron_options},
    {"deepspeed_interposer", deepspeed_interposer},
    {"nccl_tests_weak", nccl_tests_weak},
    {"xla_nonblocking", xla_nonblocking},
};

int main(int argc, char** argv) {
  for (size_t i = 0; argc > 1 && i < sizeof kClients / sizeof *kClients; ++i) {
    if (strcmp(argv[1], kClients[i].name) != 0) continue;
    return run_ranks(argc > 2 ? atoi(argv[2]) : 1, kClients[i].body);
  }
  return 2;
}
