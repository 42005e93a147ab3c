/* A rank forks after its communicator exists, as data loaders do; the parent must not notice. */
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>

#include "tests/nccl/ranks.h"

enum { kForks = 200 };

static int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

static volatile int stop;

/* Calls that keep a message, that keep what was allocated, and that look at buffers. */
static void* call_without_end(void* nothing) {
  ncclComm_t own = NULL;
  void* memory = NULL;
  int count = 0, mine = 1, sum = 0;
  ok(ncclCommInitAll(&own, 1, NULL), "CommInitAll", 0);
  while (!stop) {
    for (int i = 0; i < 1000; ++i) ncclCommCount(NULL, &count);
    if (ncclMemAlloc(&memory, 4096) == ncclSuccess) ncclMemFree(memory);
    for (int i = 0; i < 1000; ++i) ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, own, NULL);
  }
  ok(ncclCommDestroy(own), "CommDestroy", 0);
  return nothing;
}

static int pass_over(struct dl_phdr_info* info, size_t size, void* nothing) {
  (void)info, (void)size, (void)nothing;
  return 1;
}

/* Takes the locks of the drop-in, and the one of the C library that a fork does not free. */
static int use_locks(ncclComm_t inherited) {
  alarm(30);
  dl_iterate_phdr(pass_over, NULL);
  return ncclCommDestroy(inherited) == ncclInvalidUsage ? 0 : 1;
}

/* A fork finds no lock held by a thread that the child does not have. */
static void fork_beside_calls(Member m, ncclComm_t comm) {
  pthread_t thread;
  int count = 0;
  stop = 0;
  ncclCommCount(NULL, &count); /* what is refused again is not logged again */
  is(pthread_create(&thread, NULL, call_without_end, NULL) == 0, "a thread", m.rank);
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(use_locks(comm));
    is(status_of(child) == 0, "a child beside calls", m.rank);
  }
  stop = 1;
  pthread_join(thread, NULL);
}

static void body(Member m) {
  ncclComm_t comm = join(m), own = NULL;
  ncclUniqueId id;
  int mine = m.rank, sum = 0;
  for (int turn = 0; turn < 3; ++turn) {
    const pid_t child = fork();
    if (child == 0 && turn == 0) exit(0); /* with everything that exit runs */
    if (child == 0 && turn == 1) {
      refused(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), ncclInvalidUsage,
              "forked child", m.rank);
      refused(ncclCommDestroy(comm), ncclInvalidUsage, "forked child", m.rank);
      exit(0);
    }
    if (child == 0) { /* a communicator of its own */
      ok(ncclGetUniqueId(&id), "GetUniqueId", m.rank);
      ok(ncclCommInitRank(&own, 1, id, 0), "CommInitRank", m.rank);
      ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, own, NULL), "AllReduce", m.rank);
      ok(ncclCommDestroy(own), "CommDestroy", m.rank);
      exit(sum == m.rank ? 0 : 1);
    }
    is(status_of(child) == 0, "the child", m.rank);
    ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
    is(sum == m.ranks * (m.ranks - 1) / 2, "AllReduce after a fork", m.rank);
  }
  if (m.rank == 0) fork_beside_calls(m, comm);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

int main(int argc, char** argv) { return run_ranks(argc > 1 ? atoi(argv[1]) : 2, body); }
