/* NCCL's host one-sided calls on host memory: one_sided RANKS [hosts]. With `hosts`, ranks of even
 * and odd number are on different ones. */
#include "tests/nccl/ranks.h"

#define COUNT 100000

static int32_t value(int from, int to, int round, int i) {
  return from * 1000 + to * 100 + round + i % 89;
}

static ncclWaitSignalDesc_t from(int peer, int times) {
  const ncclWaitSignalDesc_t wait = {times, peer, 0, 0};
  return wait;
}

/* Everybody puts to everybody, itself included, and waits for all with one call. */
static void check_all_to_all(Member m, ncclComm_t comm, int32_t* mine, ncclWindow_t window) {
  ncclWaitSignalDesc_t waits[MOST_RANKS];
  int32_t* send = (int32_t*)malloc(COUNT * sizeof *send);
  for (int round = 0; round < 3; ++round) {
    for (int peer = 0; peer < m.ranks; ++peer) {
      for (int i = 0; i < COUNT; ++i) send[i] = value(m.rank, peer, round, i);
      ok(ncclPutSignal(send, COUNT, ncclInt32, peer, window, (size_t)m.rank * COUNT * sizeof *send,
                       0, 0, 0, comm, NULL),
         "PutSignal", m.rank);
      waits[peer] = from(peer, 1);
    }
    ok(ncclWaitSignal(m.ranks, waits, comm, NULL), "WaitSignal", m.rank);
    for (int k = 0; k < m.ranks * COUNT; ++k) {
      is(mine[k] == value(k / COUNT, m.rank, round, k % COUNT), "PutSignal", m.rank);
    }
    /* Before the next round may overwrite it. */
    for (int peer = 0; peer < m.ranks; ++peer) {
      ok(ncclSignal(peer, 3, 0, 0, comm, NULL), "Signal", m.rank);
      waits[peer].sigIdx = 3;
    }
    ok(ncclWaitSignal(m.ranks, waits, comm, NULL), "WaitSignal", m.rank);
  }
  free(send);
}

/* In a group, the wait first; and several signals waited for at once. */
static void check_groups(Member m, ncclComm_t comm, int32_t* mine, ncclWindow_t window) {
  const int next = (m.rank + 1) % m.ranks, previous = (m.rank + m.ranks - 1) % m.ranks;
  ncclWaitSignalDesc_t wait = from(previous, 3);
  int32_t first = m.rank + 7, second = m.rank + 8, one = 1, sum = 0;
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclWaitSignal(1, &wait, comm, NULL), "WaitSignal", m.rank);
  wait.opCnt = 1000000; /* it was read */
  ok(ncclPutSignal(&first, 1, ncclInt32, next, window, 0, 0, 0, 0, comm, NULL), "PutSignal",
     m.rank);
  ok(ncclPutSignal(&second, 4, ncclUint8, next, window, 4, 0, 0, 0, comm, NULL), "PutSignal",
     m.rank);
  ok(ncclSignal(next, 0, 0, 0, comm, NULL), "Signal", m.rank);
  ok(ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, comm, NULL), "AllReduce", m.rank);
  ok(ncclGroupEnd(), "GroupEnd", m.rank);
  is(mine[0] == previous + 7 && mine[1] == previous + 8, "PutSignal in a group", m.rank);
  is(sum == m.ranks, "AllReduce beside it", m.rank);
}

static void check_refusals(Member m, ncclComm_t comm, ncclWindow_t window) {
  ncclWaitSignalDesc_t wait = from(m.ranks, 1);
  const size_t end = (size_t)m.ranks * COUNT * sizeof(int32_t);
  int32_t word = 0;
  refused(ncclPutSignal(&word, 1, ncclInt32, 0, window, end - 3, 0, 0, 0, comm, NULL),
          ncclInvalidArgument, "of rank 0 (", m.rank);
  refused(ncclPutSignal(&word, (size_t)1 << 62, ncclInt64, 0, window, 0, 0, 0, 0, comm, NULL),
          ncclInvalidArgument, "count", m.rank);
  refused(ncclPutSignal(&word, 1, (ncclDataType_t)99, 0, window, 0, 0, 0, 0, comm, NULL),
          ncclInvalidArgument, "data type", m.rank);
  refused(ncclPutSignal(&word, 1, ncclInt32, 0, (ncclWindow_t)&word, 0, 0, 0, 0, comm, NULL),
          ncclInvalidArgument, "not a window", m.rank);
  refused(ncclPutSignal(&word, 1, ncclInt32, m.ranks, window, 0, 0, 0, 0, comm, NULL),
          ncclInvalidArgument, "peer", m.rank);
  refused(ncclPutSignal(&word, 1, ncclInt32, 0, window, 0, 0, 0, 1, comm, NULL),
          ncclInvalidArgument, "flags", m.rank);
  refused(ncclSignal(0, 16, 0, 0, comm, NULL), ncclInvalidArgument, "16", m.rank);
  refused(ncclSignal(0, 0, 1, 0, comm, NULL), ncclInvalidArgument, "context", m.rank);
  refused(ncclSignal(-1, 0, 0, 0, comm, NULL), ncclInvalidArgument, "peer", m.rank);
  refused(ncclWaitSignal(1, &wait, comm, NULL), ncclInvalidArgument, "peer", m.rank);
  for (int times = -1; times <= 0; ++times) { /* NCCL refuses 0, too */
    wait = from(0, times);
    refused(ncclWaitSignal(1, &wait, comm, NULL), ncclInvalidArgument, "opCnt", m.rank);
  }
  wait = from(0, 1);
  wait.ctx = 1;
  refused(ncclWaitSignal(1, &wait, comm, NULL), ncclInvalidArgument, "context", m.rank);
  refused(ncclWaitSignal(1, NULL, comm, NULL), ncclInvalidArgument, "null", m.rank);
  refused(ncclWaitSignal(0, &wait, comm, NULL), ncclInvalidArgument, "no descriptors", m.rank);
  refused(ncclSignal(0, 0, 0, 0, NULL, NULL), ncclInvalidArgument, "null", m.rank);
}

static int on_hosts;

static void body(Member m) {
  void* memory = NULL;
  ncclWindow_t window = NULL;
  const size_t bytes = (size_t)m.ranks * COUNT * sizeof(int32_t);
  if (on_hosts) setenv("TUTTI_HOST_ID", m.rank % 2 == 0 ? "even" : "odd", 1);
  ncclComm_t comm = join(m);
  refused(ncclSignal(0, 0, 0, 0, comm, NULL), ncclInvalidUsage, "ncclCommWindowRegister", m.rank);
  ok(ncclMemAlloc(&memory, bytes), "MemAlloc", m.rank);
  ok(ncclCommWindowRegister(comm, memory, bytes, &window, 0), "CommWindowRegister", m.rank);
  check_all_to_all(m, comm, (int32_t*)memory, window);
  check_groups(m, comm, (int32_t*)memory, window);
  check_refusals(m, comm, window);
  meet(m); /* nobody puts any more */
  ok(ncclCommWindowDeregister(comm, window), "CommWindowDeregister", m.rank);
  refused(ncclPutSignal(memory, 1, ncclInt32, 0, window, 0, 0, 0, 0, comm, NULL),
          ncclInvalidArgument, "not a window", m.rank);
  /* Signals stay with the communicator. */
  ncclWaitSignalDesc_t wait = from((m.rank + 1) % m.ranks, 1);
  ok(ncclSignal((m.rank + m.ranks - 1) % m.ranks, 0, 0, 0, comm, NULL), "Signal", m.rank);
  ok(ncclWaitSignal(1, &wait, comm, NULL), "WaitSignal", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
  ok(ncclMemFree(memory), "MemFree", m.rank);
}

int main(int argc, char** argv) {
  on_hosts = argc > 2;
  return run_ranks(argc > 1 ? atoi(argv[1]) : 2, body);
}
